package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// A Curve is a line of a plot.
type Curve struct {
	Name   string
	Points []Point
}

// A Point is a median with its least and its largest value; all are positive.
type Point struct{ X, Y, Low, High float64 }

// A Plot shows curves with both axes logarithmic.
type Plot struct {
	Title, X, Y string
	Format      func(float64) string // of marks on the y axis
	Curves      []Curve
}

// The drawing's measures, in units of SVG.
const (
	plotWidth, plotHeight = 720, 440
	left, right           = 90, 190
	top, bottom           = 40, 50
)

var colours = []string{"#1b6ca8", "#d1495b", "#2e933c", "#8d6a9f", "#e08d00", "#444444"}

// SVG writes the plot. One without points is an empty frame.
func (p Plot) SVG(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	text(&b, left, 22, "start", p.Title, `font-size="15" font-weight="bold"`)
	x, y := p.axes()
	p.frame(&b, x, y)
	for i, c := range p.Curves {
		colour := colours[i%len(colours)]
		var path []string
		for _, q := range c.Points {
			px, py := x.at(q.X), y.at(q.Y)
			path = append(path, fmt.Sprintf("%.1f,%.1f", px, py))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/><path d="M%.1f %.1fV%.1f" stroke="%s"/>`+"\n",
				px, py, colour, px, y.at(q.Low), y.at(q.High), colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colour)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/>`+"\n", plotWidth-right+15, top+20*i, colour)
		text(&b, plotWidth-right+33, float64(top+20*i+10), "start", c.Name, "")
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// An axis maps values from low to high, whole powers of ten, to a range.
type axis struct {
	low, high int // exponents
	from, to  float64
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-float64(a.low))/float64(a.high-a.low)*(a.to-a.from)
}

func (p Plot) axes() (x, y axis) {
	x = axis{math.MaxInt32, math.MinInt32, left, plotWidth - right}
	y = axis{math.MaxInt32, math.MinInt32, plotHeight - bottom, top}
	for _, c := range p.Curves {
		for _, q := range c.Points {
			x.cover(q.X)
			y.cover(q.Low)
			y.cover(q.High)
		}
	}
	return x.whole(), y.whole()
}

func (a *axis) cover(v float64) {
	a.low = min(a.low, int(math.Floor(math.Log10(v))))
	a.high = max(a.high, int(math.Ceil(math.Log10(v))))
}

// whole makes an axis that covers at least one power of ten.
func (a axis) whole() axis {
	if a.low > a.high {
		a.low, a.high = 0, 1
	}
	if a.low == a.high {
		a.high++
	}
	return a
}

func (p Plot) frame(b *strings.Builder, x, y axis) {
	for e := x.low; e <= x.high; e++ {
		at := x.at(math.Pow10(e))
		fmt.Fprintf(b, `<path d="M%.1f %dV%d" stroke="#ddd"/>`+"\n", at, top, plotHeight-bottom)
		text(b, at, plotHeight-bottom+18, "middle", fmt.Sprintf("%.0f", math.Pow10(e)), "")
	}
	for e := y.low; e <= y.high; e++ {
		at := y.at(math.Pow10(e))
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", left, at, plotWidth-right)
		text(b, left-8, at+4, "end", p.Format(math.Pow10(e)), "")
	}
	text(b, (left+plotWidth-right)/2, plotHeight-12, "middle", p.X, "")
	text(b, left, top-6, "end", p.Y, "")
}

func text(b *strings.Builder, x, y float64, anchor, s, more string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>`, x, y, anchor, more)
	xml.EscapeText(b, []byte(s)) // a strings.Builder takes everything
	b.WriteString("</text>\n")
}
