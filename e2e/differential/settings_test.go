package differential

import (
	"fmt"
	"path/filepath"
	"testing"

	"vcsd/internal/hgtest"
)

// TestExchangeSettings compares what servers offer by their settings, and what
// they send to who asks for it nevertheless.
func TestExchangeSettings(t *testing.T) {
	t.Parallel()
	settings := []string{
		"", "evolution = all", "evolution = yes", "evolution = no", "evolution = exchange", "evolution = createmarkers",
		"evolution = createmarkers, exchange", "evolution = allowunstable", "evolution.exchange = yes",
		"evolution.createmarkers = yes", "evolution = all\nevolution.exchange = no", "evolution = all\nevolution.createmarkers = no",
		"evolution.createmarkers = yes\nevolution.exchange = yes", "changegroup3 = yes", "changegroup3 = no\nevolution = all",
	}
	root := t.TempDir()
	h := hgtest.New(t)
	h.Run("init", "made")
	made := h.In("made")
	for i := range 4 {
		made.Commit(fmt.Sprint(i), map[string]string{"f": fmt.Sprint(i)})
	}
	made.Run("phase", "-d", "-f", "1")
	made.With("experimental.evolution=all").Run("debugobsolete", made.Node("3").String())
	for i, s := range settings {
		repo := filepath.Join(root, fmt.Sprint("r", i))
		if err := hgtest.CopyTree(made.Dir, repo); err != nil {
			t.Fatal(err)
		}
		appendHgrc(t, repo, "[experimental]\n"+s+"\n")
	}
	p := servePair(t, root)
	for i, s := range settings {
		t.Run(s, func(t *testing.T) {
			repo := fmt.Sprint("r", i)
			m := p.readModel(t, repo)
			p.check(t, m, request{repo: repo, command: "capabilities"})
			for _, ns := range []string{"namespaces", "obsolete", "phases"} {
				p.check(t, m, request{repo: repo, command: "listkeys", args: hgtest.Args{"namespace": ns}})
			}
			for _, versions := range []string{"01,02,03", "03", "02"} {
				p.check(t, m, request{repo: repo, command: "getbundle", args: hgtest.Args{
					"bundlecaps": bundleCaps(versions, "phases=heads", "obsmarkers=V0,V1"), "obsmarkers": "1", "phases": "1",
				}})
			}
			p.check(t, m, request{repo: repo, command: "getbundle", args: hgtest.Args{"bundlecaps": bundleCaps("02"), "obsmarkers": "1"}})
		})
	}
}
