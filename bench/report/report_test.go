package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestQuantile(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		q      float64
		want   float64
	}{
		{"one", []float64{7}, 0.5, 7},
		{"middle of three", []float64{9, 1, 5}, 0.5, 5},
		{"middle of four", []float64{4, 1, 3, 2}, 0.5, 2.5},
		{"least", []float64{4, 1, 3}, 0, 1},
		{"most", []float64{4, 1, 3}, 1, 4},
		{"quartile", []float64{1, 2, 3, 4, 5}, 0.25, 2},
	}
	for _, tt := range tests {
		if got := Quantile(tt.values, tt.q); got != tt.want {
			t.Errorf("%s: Quantile(%v, %v) = %v, want %v", tt.name, tt.values, tt.q, got, tt.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("Median of nothing = %v", got)
	}
}

var some = []Result{
	{Scenario: "clone", History: "1k", Changesets: 1000, Server: "vcsd", Ops: 1, Wall: []float64{0.1, 0.3, 0.2}, CPU: []float64{0.05}},
	{Scenario: "clone", History: "1k", Changesets: 1000, Server: "hg <serve>", Ops: 1, Wall: []float64{2}, CPU: []float64{1.5}, Peak: []float64{1 << 20}},
	{Scenario: "clone", History: "1k", Changesets: 1000, Server: "hgweb", Note: "status 431"},
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, "vcsd", some); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| clone | 1k | vcsd | 200 ms (100 ms–300 ms) | 50 ms |  |\n",
		"|  |  | hg <serve> | 2.0 s **10 ×** | 1.5 s **30 ×** | 1.0 MiB |\n",
		"|  |  | hgweb | status 431 | | |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, &b)
		}
	}
}

func TestRatios(t *testing.T) {
	var b strings.Builder
	rounds := []Result{
		{Scenario: "pull", History: "1k", Server: "vcsd", Wall: []float64{1, 2, 4}, CPU: []float64{1, 1, 1}},
		{Scenario: "pull", History: "1k", Server: "hg", Wall: []float64{3, 4, 20}, CPU: []float64{0.5, 0.5, 0.5}},
	}
	if err := Ratios(&b, "vcsd", rounds); err != nil {
		t.Fatal(err)
	}
	if want := "| pull | 1k | hg | **3.0 ×** (2.0–5.0) | **0.5 ×** (0.5–0.5) |  |\n"; !strings.Contains(b.String(), want) {
		t.Errorf("ratios lack %q:\n%s", want, &b)
	}
}

func TestCSV(t *testing.T) {
	var b strings.Builder
	if err := CSV(&b, some); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for _, l := range lines {
		if n := strings.Count(l, ","); n != strings.Count(lines[0], ",") {
			t.Errorf("%d commas in %q", n, l)
		}
	}
}

func TestSVG(t *testing.T) {
	curve := Curve{"hg <serve>", []Point{{1000, 0.02, 0.01, 0.03}, {10000, 0.2, 0.2, 0.3}}}
	for _, p := range []Plot{
		{Title: "empty", Format: Seconds},
		{Title: "a & b", X: "changesets", Format: Seconds, Curves: []Curve{curve}},
		{Title: "one point", Format: Bytes, Curves: []Curve{{"x", []Point{{10, 10, 10, 10}}}}},
	} {
		var b strings.Builder
		if err := p.SVG(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%s: a coordinate is no number:\n%s", p.Title, &b)
		}
		d := xml.NewDecoder(strings.NewReader(b.String()))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", p.Title, err, &b)
			}
		}
	}
}
