package differential

import (
	"path/filepath"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// unsupported are the repositories that vcsd refuses, by a requirement.
var unsupported = map[string]string{"treemanifest": "treemanifest", "lfs": "lfs", "nostore": "store"}

// TestRepositories asks the same of all kinds of repositories.
func TestRepositories(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	names := hgtest.Repos(t)
	h := hgtest.New(t)
	for _, name := range names {
		repo := filepath.Join(root, name)
		if err := hgtest.CopyTree(hgtest.Repo(t, name), repo); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "abandoned") {
			// What vcsd does at open; stock's readers would see half of it.
			h.In(repo).Run("recover", "-q")
		}
		appendHgrc(t, repo, "\n[experimental]\nevolution = all\n")
	}
	p := servePair(t, root)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if req := unsupported[name]; req != "" {
				p.checkRefused(t, name, req)
				return
			}
			p.checkRepository(t, name)
		})
	}
}

// checkRefused: no command is answered but by naming the requirement.
func (p *pair) checkRefused(t *testing.T, repo, requirement string) {
	for _, q := range []request{
		{command: "capabilities"}, {command: "heads"}, {command: "branchmap"},
		{command: "lookup", args: hgtest.Args{"key": "tip"}},
		{command: "listkeys", args: hgtest.Args{"namespace": "phases"}},
		{command: "batch", args: hgtest.Args{"cmds": "heads ;branchmap "}},
		{command: "getbundle"},
		{command: "getbundle", args: hgtest.Args{"bundlecaps": bundleCaps("02")}},
	} {
		q.repo = repo
		a := p.do(p.vcsd.URL, q)
		if a.code != 200 || a.mediaType != "application/hg-error" || !strings.Contains(string(a.raw), requirement) {
			t.Errorf("%s: got %s %s %.200q, want a refusal that names %s", q, a.status, a.mediaType, a.raw, requirement)
		}
	}
}

func (p *pair) checkRepository(t *testing.T, repo string) {
	m := p.readModel(t, repo)
	nodes := m.nodes()
	for _, command := range []string{"capabilities", "heads", "branchmap"} {
		p.check(t, m, request{repo: repo, command: command})
	}
	for _, ns := range []string{"bookmarks", "phases", "namespaces", "obsolete"} {
		p.check(t, m, request{repo: repo, command: "listkeys", args: hgtest.Args{"namespace": ns}})
	}
	for _, name := range []string{".", "00"} {
		p.check(t, m, request{repo: repo, command: "lookup", args: hgtest.Args{"key": name}})
	}
	p.check(t, m, request{repo: repo, command: "getbundle"})
	if len(nodes) == 0 {
		nodes = []hg.Node{{}}
	}
	common := joined(nodes[len(nodes)/3])
	for _, versions := range []string{"02", "01"} {
		p.check(t, m, request{repo: repo, command: "getbundle", args: hgtest.Args{
			"heads": joined(nodes[len(nodes)-1]), "common": common,
			"bundlecaps": bundleCaps(versions, "phases=heads", "hgtagsfnodes", "obsmarkers=V0,V1"),
			"phases":     "1", "bookmarks": "1", "obsmarkers": "1", "listkeys": "bookmarks,phases",
		}, proto: hgtest.ProtoV2})
	}
	p.check(t, m, request{repo: repo, command: "getbundle", args: hgtest.Args{"common": common}})
}
