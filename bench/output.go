package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"vcsd/bench/kernel"
	"vcsd/bench/report"
)

// save writes what there is so far, so that a run that is ended leaves it.
func (b *bench) save() error {
	m := machine()
	files := map[string]func(io.Writer) error{
		"results.json": func(w io.Writer) error { return report.JSON(w, m, b.results) },
		"results.csv":  func(w io.Writer) error { return report.CSV(w, b.results) },
		"ratios.md":    func(w io.Writer) error { return report.Ratios(w, nameVcsd, b.results) },
		"table.md":     func(w io.Writer) error { return b.markdown(w, m) },
	}
	for name, p := range b.plots() {
		files[name+".svg"] = p.SVG
	}
	for name, write := range files {
		if err := writeFile(filepath.Join(b.out, name), write); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) markdown(w io.Writer, m report.Machine) error {
	fmt.Fprintf(w, "%s: %d × %s, %s, kernel %s, %s, Mercurial %s. CPU: %s.\n\n", m.Date, m.CPUs, m.Model, m.OS, m.Kernel, m.Go, m.Mercurial, m.CPUFrom)
	fmt.Fprintf(w, "Medians of the rounds (least–most); **bold**: times what vcsd needs. Values are those of one operation.\n\n")
	if err := report.Table(w, nameVcsd, b.results); err != nil {
		return err
	}
	if len(b.requests) > 0 {
		fmt.Fprintf(w, "\nRequests of a pull without changes: %v.\n", b.requests)
	}
	fmt.Fprintf(w, "\n| goal | measured | reached |\n|---|---|---|\n")
	for _, g := range b.goals() {
		fmt.Fprintf(w, "| %s | %s | %s |\n", g.text, g.measured, g.verdict())
	}
	return nil
}

func machine() report.Machine {
	g := kernel.NewGroup(fmt.Sprintf("vcsd-bench-%d-probe", os.Getpid()))
	m := report.Machine{CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), CPUFrom: g.Source(),
		Date: time.Now().UTC().Format(time.DateOnly)}
	g.Close() // an empty group does no harm
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				m.Model = strings.TrimSpace(v)
				break
			}
		}
	}
	var u syscall.Utsname
	if syscall.Uname(&u) == nil {
		for _, c := range u.Release {
			if c != 0 {
				m.Kernel += string(rune(c))
			}
		}
	}
	if out, err := exec.Command("hg", "version", "-q", "-T", "{ver}").Output(); err == nil {
		m.Mercurial = string(out)
	}
	return m
}

// plotted are the scenarios that are drawn over the length of a history.
var plotted = []struct{ file, scenario, what string }{
	{"clone-cpu", "clone", "cpu"},
	{"clone-wall", "clone", "wall"},
	{"stream-wall", "stream clone", "wall"},
	{"pull-none-cpu", "pull without changes", "cpu"},
	{"pull-10-cpu", "pull 10", "cpu"},
	{"push-wall", "push 1 changeset", "wall"},
	{"push-cpu", "push 1 changeset", "cpu"},
	{"first-push-wall", "first push of all", "wall"},
	{"memory", "memory: 8 clones", "peak"},
}

func (b *bench) plots() map[string]report.Plot {
	plots := map[string]report.Plot{}
	for _, p := range plotted {
		plot := report.Plot{Title: p.scenario, X: "changesets in the history", Format: report.Seconds}
		of := map[string]func(report.Result) []float64{
			"cpu":  func(r report.Result) []float64 { return r.CPU },
			"wall": func(r report.Result) []float64 { return r.Wall },
			"peak": func(r report.Result) []float64 { return r.Peak },
		}[p.what]
		switch p.what {
		case "cpu":
			plot.Title += ": CPU of the server"
		case "wall":
			plot.Title += ": time for the client"
		case "peak":
			plot.Title, plot.Format = plot.Title+": peak of memory", report.Bytes
		}
		plot.Curves = b.curves(p.scenario, of)
		if len(plot.Curves) > 0 {
			plots[p.file] = plot
		}
	}
	return plots
}

// curves collects what woven histories gave, one curve for each server.
func (b *bench) curves(scenario string, of func(report.Result) []float64) (curves []report.Curve) {
	for _, r := range b.results {
		v := of(r)
		if r.Scenario != scenario || !strings.HasPrefix(r.History, "woven-") || len(v) == 0 || report.Quantile(v, 0) <= 0 {
			continue
		}
		i := slices.IndexFunc(curves, func(c report.Curve) bool { return c.Name == r.Server })
		if i < 0 {
			i, curves = len(curves), append(curves, report.Curve{Name: r.Server})
		}
		curves[i].Points = append(curves[i].Points, report.Point{X: float64(r.Changesets), Y: report.Median(v), Low: report.Quantile(v, 0), High: report.Quantile(v, 1)})
	}
	return curves
}
