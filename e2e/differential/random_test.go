package differential

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// TestRandomRequests asks both servers the same random things about random
// histories.
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	repos := []string{"publishing", "drafts", "evolved"}
	for i, repo := range repos {
		dir := filepath.Join(root, repo)
		makeHistory(t, dir, *seed+uint64(i)*1000, repo == "evolved")
		if repo != "publishing" {
			appendHgrc(t, dir, "[phases]\npublish = no\n")
		}
		if repo == "drafts" {
			appendHgrc(t, dir, "[experimental]\nchangegroup3 = yes\n")
		}
	}
	p := servePair(t, root)
	g := &generator{rng: rand.New(rand.NewPCG(*seed, 3))}
	for _, repo := range repos {
		g.subjects = append(g.subjects, p.newSubject(t, repo))
	}
	failures := 0
	for i := range *requests {
		s, q := g.next()
		if !t.Run(fmt.Sprintf("%d/%s", i, q.command), func(t *testing.T) { p.check(t, s.model, q) }) {
			if failures++; failures == 50 {
				t.Fatal("too many failures")
			}
		}
	}
}

// A generator makes requests.
type generator struct {
	rng      *rand.Rand
	subjects []*subject
	s        *subject // of the request being made
}

// chance is true n times of a hundred.
func (g *generator) chance(n int) bool { return g.rng.IntN(100) < n }

func pick[T any](g *generator, list ...T) T { return list[g.rng.IntN(len(list))] }

func (g *generator) next() (*subject, request) {
	g.s = pick(g, g.subjects...)
	command := pick(g, "capabilities", "heads", "known", "known", "lookup", "lookup", "lookup", "branchmap", "listkeys", "listkeys",
		"between", "between", "branches", "batch", "batch", "changegroup", "changegroupsubset", "changegroupsubset",
		"getbundle", "getbundle", "getbundle", "getbundle", "getbundle", "getbundle")
	q := request{repo: g.s.repo, command: command, args: g.args(command), form: form(g.rng.IntN(forms)), post: g.chance(20)}
	q.proto = pick(g, "", "", "0.1", "0.1 0.2", hgtest.ProtoV2, hgtest.ProtoV2, "0.1 0.2 comp=zlib", "0.1 0.2 comp=none", "0.1 0.2 comp=zlib,zstd", "0.2 comp=snappy", "0.1 0.2 comp=")
	if g.chance(3) {
		// What no command knows must do no harm.
		q.args["nosuchargument"] = "1"
	}
	return g.s, q
}

func (g *generator) args(command string) hgtest.Args {
	switch command {
	case "known":
		return hgtest.Args{"nodes": g.nodes(0, 30)}
	case "lookup":
		return hgtest.Args{"key": g.name()}
	case "listkeys":
		return hgtest.Args{"namespace": pick(g, "bookmarks", "phases", "namespaces", "obsolete", "nosuch", "")}
	case "between":
		return hgtest.Args{"pairs": g.pairs()}
	case "branches":
		return hgtest.Args{"nodes": g.nodes(1, 6)}
	case "batch":
		return hgtest.Args{"cmds": g.batch()}
	case "changegroup":
		return hgtest.Args{"roots": g.nodes(1, 3)}
	case "changegroupsubset":
		return hgtest.Args{"bases": g.nodes(1, 3), "heads": g.nodes(1, 3)}
	case "getbundle":
		return g.getbundle()
	}
	return hgtest.Args{}
}

// node is mostly a changeset that clients see.
func (g *generator) node() hg.Node {
	switch {
	case g.chance(2):
		return hg.NullNode
	case g.chance(2):
		var n hg.Node
		binary.BigEndian.PutUint64(n[:], g.rng.Uint64())
		return n
	case g.chance(3):
		return pick(g, g.s.all...)
	}
	return pick(g, g.s.shown...)
}

// nodes is a list of at least low and at most high nodes.
func (g *generator) nodes(low, high int) string {
	list := make([]hg.Node, low+g.rng.IntN(high-low+1))
	for i := range list {
		list[i] = g.node()
	}
	return joined(list...)
}

func (g *generator) pairs() string {
	var out []string
	for range 1 + g.rng.IntN(4) {
		out = append(out, g.node().String()+"-"+g.node().String())
	}
	return strings.Join(out, " ")
}

// name is something to look up.
func (g *generator) name() string {
	n := pick(g, g.s.all...).String()
	switch g.rng.IntN(10) {
	case 0:
		return strconv.Itoa(g.rng.IntN(len(g.s.all)+4) - 2)
	case 1:
		return strconv.Itoa(-g.rng.IntN(len(g.s.all) + 4))
	case 2, 3:
		return n[:1+g.rng.IntN(4)]
	case 4:
		return n[:g.rng.IntN(41)]
	case 5:
		return strings.ToUpper(n[:3+g.rng.IntN(38)])
	}
	return pick(g, g.s.names...)
}

var batchEscape = strings.NewReplacer(":", ":c", ",", ":o", ";", ":s", "=", ":e")

func (g *generator) batch() string {
	var items []string
	for range 1 + g.rng.IntN(4) {
		command := pick(g, "heads", "known", "lookup", "branchmap", "listkeys", "between", "branches", "capabilities")
		if command == "capabilities" && g.chance(90) {
			command = "heads"
		}
		var args []string
		for k, v := range g.args(command) {
			args = append(args, batchEscape.Replace(k)+"="+batchEscape.Replace(v))
		}
		items = append(items, command+" "+strings.Join(args, ","))
	}
	return strings.Join(items, ";")
}

func (g *generator) getbundle() hgtest.Args {
	a := hgtest.Args{}
	if g.chance(80) {
		a["heads"] = g.nodes(1, 4)
	}
	if g.chance(80) {
		a["common"] = g.nodes(0, 4)
	}
	if g.chance(25) {
		return a // a client of bundle1
	}
	a["bundlecaps"] = g.bundleCaps()
	for _, flag := range []struct {
		name  string
		share int
	}{{"cg", 50}, {"phases", 60}, {"bookmarks", 50}, {"cbattempted", 10}, {"stream", 5}, {"obsmarkers", 50}} {
		// Stock breaks down when it has to send what the client can't read.
		if g.chance(flag.share) && (flag.name != "phases" && flag.name != "obsmarkers" || strings.Contains(a["bundlecaps"], flag.name)) {
			a[flag.name] = pick(g, "1", "1", "0", "true", "")
		}
	}
	if a["stream"] != "" {
		a["stream"] = "0"
	}
	if g.chance(40) {
		a["listkeys"] = pick(g, "bookmarks", "phases", "bookmarks,phases", "namespaces", "nosuch", "", "phases,phases", "obsolete")
	}
	return a
}

func (g *generator) bundleCaps() string {
	if g.chance(4) {
		return pick(g, "HG20", "HG2X", "HG10", "nosuch", "HG20,bundle2=HG20", "bundle2=HG20", "HG20,bundle2=%zz")
	}
	versions := pick(g, "02", "01,02", "01,02,03", "01", "01,02", "01,02", "03", "99")
	if versions > "03" && g.chance(80) {
		versions = "01,02"
	}
	more := []string{"phases=heads", "listkeys", "error=abort"}
	if g.chance(50) {
		more = append(more, "hgtagsfnodes")
	}
	if g.chance(20) {
		more = append(more, "rev-branch-cache")
	}
	if g.chance(50) {
		more = append(more, "obsmarkers="+pick(g, "V0,V1", "V1", "V0", "V0,V1,V7"))
	}
	return bundleCaps(versions, more...)
}
