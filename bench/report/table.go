package report

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Table writes results as a table of Markdown: medians with their spread from
// least to most, and behind those of every server but base's how many times
// base's they are.
func Table(w io.Writer, base string, results []Result) error {
	var b strings.Builder
	b.WriteString("| scenario | history | server | wall | server CPU | peak memory |\n|---|---|---|---|---|---|\n")
	for i, r := range results {
		ref := find(results, r, base)
		title, history := r.Scenario, r.History
		if i > 0 && results[i-1].Scenario == r.Scenario && results[i-1].History == r.History {
			title, history = "", ""
		}
		if len(r.Wall) == 0 {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | | |\n", title, history, r.Server, r.Note)
			continue
		}
		server := r.Server
		if r.Note != "" {
			server += " (" + r.Note + ")"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", title, history, server,
			cell(r.Wall, ref.Wall, r.Server != ref.Server, Seconds),
			cell(r.CPU, ref.CPU, r.Server != ref.Server, Seconds),
			cell(r.Peak, ref.Peak, r.Server != ref.Server, Bytes))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Ratios writes a table of Markdown of how many times base's every other server's
// results are: the median of the rounds' ratios with their spread, which is from
// least to most, or between the quartiles of more than ten.
func Ratios(w io.Writer, base string, results []Result) error {
	var b strings.Builder
	b.WriteString("| scenario | history | server | wall | server CPU | peak memory |\n|---|---|---|---|---|---|\n")
	last := ""
	for _, r := range results {
		ref := find(results, r, base)
		if r.Server == ref.Server || len(ref.Wall) == 0 {
			continue
		}
		title, history := r.Scenario, r.History
		if last == title+history {
			title, history = "", ""
		} else {
			last = title + history
		}
		if len(r.Wall) == 0 {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | | |\n", title, history, r.Server, r.Note)
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", title, history, r.Server,
			ratios(r.Wall, ref.Wall), ratios(r.CPU, ref.CPU), ratios(r.Peak, ref.Peak))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ratios(values, base []float64) string {
	if len(values) == 0 || len(base) == 0 {
		return ""
	}
	if len(values) != len(base) {
		return Digits(Median(values)/Median(base)) + " ×"
	}
	q := make([]float64, len(values))
	for i := range q {
		q[i] = values[i] / base[i]
	}
	low := 0.0
	if len(q) > 10 {
		low = 0.25
	}
	return fmt.Sprintf("**%s ×** (%s–%s)", Digits(Median(q)), Digits(Quantile(q, low)), Digits(Quantile(q, 1-low)))
}

// find returns base's result of the scenario that r is of; r itself if there
// is none.
func find(results []Result, r Result, base string) Result {
	for _, o := range results {
		if o.Server == base && o.Scenario == r.Scenario && o.History == r.History {
			return o
		}
	}
	return r
}

func cell(values, base []float64, ratio bool, unit func(float64) string) string {
	if len(values) == 0 {
		return ""
	}
	s := unit(Median(values))
	if len(values) > 1 {
		s += fmt.Sprintf(" (%s–%s)", unit(Quantile(values, 0)), unit(Quantile(values, 1)))
	}
	if ratio && len(base) > 0 && Median(base) > 0 {
		s += fmt.Sprintf(" **%s ×**", Digits(Median(values)/Median(base)))
	}
	return s
}

// Seconds formats a time given in seconds.
func Seconds(s float64) string {
	switch {
	case s < 1e-3:
		return Digits(s*1e6) + " µs"
	case s < 1:
		return Digits(s*1e3) + " ms"
	}
	return Digits(s) + " s"
}

// Bytes formats a size.
func Bytes(n float64) string { return Digits(n/(1<<20)) + " MiB" }

// Digits formats a number with two digits or, from 100 on, as an integer.
func Digits(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "?"
	case v == 0 || v >= 10:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2g", v)
}
