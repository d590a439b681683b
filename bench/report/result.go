package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Result is what one server needed for one scenario, a value for each round.
type Result struct {
	Scenario   string
	History    string // its name
	Changesets int    // in the history
	Server     string
	Ops        int       // operations in a round; the values are those of one
	Wall       []float64 // seconds for the client
	CPU        []float64 `json:",omitempty"` // seconds of the server; empty where none was measured
	Peak       []float64 `json:",omitempty"` // bytes of resident memory
	Note       string    `json:",omitempty"` // why there are no values, or what they are of
}

// A Machine is where the results come from.
type Machine struct {
	CPUs              int
	Model, OS, Kernel string
	Go, Mercurial     string
	CPUFrom           string // what the figures of CPU rest on
	Date              string
}

// Quantile returns a quantile of values, interpolated; NaN if there are none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 == len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// Median returns the middle value.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// JSON writes everything there is, for machines.
func JSON(w io.Writer, m Machine, results []Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	return e.Encode(struct {
		Machine Machine
		Results []Result
	}{m, results})
}

// CSV writes a line for each server and scenario, with quartiles.
func CSV(w io.Writer, results []Result) error {
	var b strings.Builder
	b.WriteString("scenario,history,changesets,server,rounds,ops")
	for _, k := range []string{"wall_s", "cpu_s", "peak_bytes"} {
		for _, q := range []string{"min", "q1", "median", "q3", "max"} {
			b.WriteString("," + k + "_" + q)
		}
	}
	b.WriteString(",note\n")
	for _, r := range results {
		fmt.Fprintf(&b, "%q,%q,%d,%q,%d,%d", r.Scenario, r.History, r.Changesets, r.Server, len(r.Wall), r.Ops)
		for _, v := range [][]float64{r.Wall, r.CPU, r.Peak} {
			for _, q := range []float64{0, 0.25, 0.5, 0.75, 1} {
				b.WriteByte(',')
				if len(v) > 0 {
					b.WriteString(strconv.FormatFloat(Quantile(v, q), 'g', 6, 64))
				}
			}
		}
		fmt.Fprintf(&b, ",%q\n", r.Note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
