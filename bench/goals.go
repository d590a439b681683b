package main

import (
	"fmt"
	"math"
	"strings"

	"vcsd/bench/report"
)

// A goal is a figure to reach, and what was measured of it.
type goal struct {
	text, measured string
	value, limit   float64 // value must not be above limit; NaN: not measured
}

func (g goal) verdict() string {
	switch {
	case math.IsNaN(g.value):
		return "not measured"
	case g.value <= g.limit:
		return "yes"
	}
	return "**no**"
}

// goals compares results with the goals, on the largest history that has the
// figures. hg serve stands for stock hg, as its better figure mostly.
func (b *bench) goals() []goal {
	const atMost = 1.0
	ratio := func(text, scenario, mine, other string, of func(report.Result) float64, factor float64, unit string) goal {
		g := goal{text: text, value: math.NaN(), limit: atMost}
		for _, r := range b.results {
			if r.Scenario != scenario || r.Server != mine || len(r.Wall) == 0 {
				continue
			}
			for _, o := range b.results {
				if o.Scenario == scenario && o.Server == other && o.History == r.History && len(o.Wall) > 0 {
					q := of(o) / of(r)
					g.value, g.measured = factor/q, fmt.Sprintf("%s × (%s%s)", report.Digits(q), r.History, unit)
				}
			}
		}
		return g
	}
	goals := []goal{
		ratio("pushes/s, 64 pushers on 64 branches: ≥ 50 × hg serve", "64 pushers on as many branches", nameVcsd, nameHgServe, wall, 50, ""),
		b.oneWinner(),
		b.pushLatency(),
		ratio("first push of a whole history: ≥ 5 × changesets/s", "first push of all", nameVcsd, nameHgServe, wall, 5, ""),
		ratio("full clone, server CPU, nothing prepared: ≤ 1/10", "clone", nameBare, nameHgServe, cpu, 10, ""),
		b.manyClones(),
		ratio("stream clone: ≥ 80 % of `cat`", "stream clone", nameVcsd, nameCat, wall, 0.8, ", in speed"),
		ratio("pull of 10 changesets: ≤ 1/20 of the CPU", "pull 10", nameVcsd, nameHgServe, cpu, 20, ""),
		b.overSize("pull of 10: within 1.2 × over the lengths measured, in CPU", "pull 10", cpu),
		b.overSize("push of 1: within 1.2 × over the lengths measured", "push 1 changeset", wall),
		ratio("peak memory, 8 clones: ≤ 1/4", "memory: 8 clones", nameVcsd, nameHgServe, peak, 4, ""),
		b.storeSize(),
	}
	return goals
}

func wall(r report.Result) float64 { return report.Median(r.Wall) }
func cpu(r report.Result) float64  { return report.Median(r.CPU) }
func peak(r report.Result) float64 { return report.Median(r.Peak) }

// last returns the last result of a scenario and server that has figures.
func (b *bench) last(scenario, server string) (r report.Result, ok bool) {
	for _, o := range b.results {
		if o.Scenario == scenario && o.Server == server && len(o.Wall) > 0 {
			r, ok = o, true
		}
	}
	return r, ok
}

func (b *bench) oneWinner() goal {
	g := goal{text: "64 pushers on one head: all answered, one winner a round, no error", value: math.NaN(), limit: 0}
	if r, ok := b.last("64 pushers on one head", nameVcsd); ok {
		g.value, g.measured = 0, fmt.Sprintf("%d rounds", len(r.Wall))
	}
	return g
}

func (b *bench) pushLatency() goal {
	g := goal{text: "p99 of a push of 1 changeset: ≤ 3 × the time of 3 fdatasyncs", value: math.NaN(), limit: 3}
	r, ok := b.last("push 1 changeset", nameVcsd)
	s, ok2 := b.last("push 1 changeset", nameSync)
	if ok && ok2 {
		g.value = report.Quantile(r.Wall, 0.99) / wall(s)
		g.measured = fmt.Sprintf("p99 %s ×, median %s × (%s)", report.Digits(g.value), report.Digits(wall(r)/wall(s)), r.History)
	}
	return g
}

func (b *bench) manyClones() goal {
	g := goal{text: "50 identical clones at once: CPU of about one (nothing prepared)", value: math.NaN(), limit: 2}
	one := map[string]report.Result{}
	for _, r := range b.results {
		switch {
		case r.Server != nameBare || len(r.Wall) == 0:
		case r.Scenario == "clone":
			one[r.History] = r
		case r.Scenario == "50 clones at once" && len(one[r.History].CPU) > 0:
			g.value = cpu(r) * 50 / cpu(one[r.History])
			g.measured = fmt.Sprintf("CPU of %s (%s)", report.Digits(g.value), r.History)
		}
	}
	return g
}

// overSize compares the shortest and the longest of the woven histories.
func (b *bench) overSize(text, scenario string, of func(report.Result) float64) goal {
	g := goal{text: text, value: math.NaN(), limit: 1.2}
	var first, last report.Result
	for _, r := range b.results {
		if r.Scenario == scenario && r.Server == nameVcsd && strings.HasPrefix(r.History, "woven-") && len(r.Wall) > 0 {
			if first.Changesets == 0 {
				first = r
			}
			last = r
		}
	}
	if last.Changesets > first.Changesets {
		g.value = of(last) / of(first)
		g.measured = fmt.Sprintf("%s × from %d to %d", report.Digits(g.value), first.Changesets, last.Changesets)
	}
	return g
}

func (b *bench) storeSize() goal {
	g := goal{text: "store written by vcsd: ≤ 1.05 × hg's bytes", value: math.NaN(), limit: 1.05}
	if mine, theirs := b.stores[nameVcsd], b.stores[nameHgServe]; mine > 0 && theirs > 0 {
		g.value = float64(mine) / float64(theirs)
		g.measured = fmt.Sprintf("%.3f ×", g.value)
	}
	return g
}
