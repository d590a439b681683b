package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
)

// isStream tells the commands that answer with a bundle.
func isStream(command string) bool {
	return command == "getbundle" || command == "changegroup" || command == "changegroupsubset"
}

// check sends a request to both and reports what differs.
func (p *pair) check(t testing.TB, m *model, q request) {
	t.Helper()
	stock, vcsd := p.both(q)
	for i, d := range compare(m, q, stock, vcsd) {
		if i == 3 {
			t.Errorf("%s: and more", q)
			break
		}
		t.Errorf("%s\n   %s", q, d)
	}
}

func compare(m *model, q request, stock, vcsd answer) []string {
	if vcsd.err != nil {
		return []string{fmt.Sprintf("answer cut: %v; stock says %s %s %.300q", vcsd.err, stock.status, stock.mediaType, stock.raw)}
	}
	if stock.code >= 500 || stock.err != nil {
		return refused(q, vcsd)
	}
	if m.unknownHeads(q) && refused(q, vcsd) == nil {
		return nil // stock sends unknown heads back as public if it need not look at them
	}
	if vcsd.status != stock.status || vcsd.mediaType != stock.mediaType {
		return []string{fmt.Sprintf("got %s %s %.300q\n  want %s %s %.300q", vcsd.status, vcsd.mediaType, vcsd.raw,
			stock.status, stock.mediaType, stock.raw)}
	}
	if isStream(q.command) && stock.code == 200 && stock.mediaType != "application/hg-error" {
		return compareStreams(m, q, stock, vcsd)
	}
	return compareTexts(q.command, string(stock.raw), string(vcsd.raw))
}

// unknownHeads tells whether a request wants what clients don't see.
func (m *model) unknownHeads(q request) bool {
	for _, word := range strings.Fields(q.args["heads"]) {
		n, err := hg.ParseNode(word)
		if _, ok := m.parents[n]; err != nil || !ok && !n.IsNull() {
			return true
		}
	}
	return false
}

// refused: where stock breaks down, with a traceback in its log and 500, vcsd
// has to find a sentence.
func refused(q request, vcsd answer) []string {
	text := string(vcsd.raw)
	if isStream(q.command) && vcsd.mediaType != "application/hg-error" {
		b, err := decodeBundle(vcsd, texts{}, nil)
		if err != nil {
			return []string{err.Error()}
		}
		if len(b.parts) != 1 || b.parts[0].Type != "ERROR:ABORT" {
			return []string{fmt.Sprintf("got a bundle of %s where stock fails", partTypes(b.parts))}
		}
		text, _ = b.parts[0].Param("message")
	}
	if vcsd.code >= 500 || len(strings.Fields(text)) < 2 || strings.Contains(text, "internal error") {
		return []string{fmt.Sprintf("got %s %s %.300q where stock fails; want a sentence", vcsd.status, vcsd.mediaType, vcsd.raw)}
	}
	return nil
}

func compareStreams(m *model, q request, stock, vcsd answer) []string {
	want, err := decodeBundle(stock, maps.Clone(m.texts), nil)
	if err != nil {
		return []string{"stock: " + err.Error()}
	}
	has, err := m.client(m.clientHeads(q, want.revs))
	if err != nil {
		return []string{err.Error()}
	}
	got, err := decodeBundle(vcsd, maps.Clone(m.texts), func(k key) bool { return has[k] })
	if err != nil {
		return []string{err.Error()}
	}
	// Neither looks everything up: both send manifests and files at times that
	// are with the client already, which is waste and no harm.
	want.revs, got.revs = dropSpare(want.revs, got.revs, has), dropSpare(got.revs, want.revs, has)
	return compareBundles(want, got)
}

// dropSpare takes away manifests and files that the client has and the other
// side doesn't send.
func dropSpare(revs, others []revision, has map[key]bool) []revision {
	sent := map[key]bool{}
	for _, r := range others {
		sent[r.key] = true
	}
	return slices.DeleteFunc(slices.Clone(revs), func(r revision) bool { return r.log != "changelog" && has[r.key] && !sent[r.key] })
}

// clientHeads returns what the client has: what it told, and the parents of
// what it is sent.
func (m *model) clientHeads(q request, sent []revision) []hg.Node {
	isSent := map[hg.Node]bool{}
	has := map[hg.Node]bool{}
	for _, r := range sent {
		if r.log == "changelog" {
			isSent[r.node] = true
			has[r.p1], has[r.p2] = true, true
		}
	}
	for _, word := range strings.Fields(q.args["common"]) {
		if n, err := hg.ParseNode(word); err == nil {
			has[n] = true
		}
	}
	maps.DeleteFunc(has, func(n hg.Node, _ bool) bool { return isSent[n] })
	return slices.SortedFunc(maps.Keys(has), hg.Node.Compare)
}

// compareTexts compares short answers. Where stock's order is that of a hash
// table, order doesn't count.
func compareTexts(command, stock, vcsd string) []string {
	norm := func(s string) string { return s }
	switch command {
	case "branchmap", "listkeys":
		norm = sortedLines
	case "capabilities", "hello":
		norm = withoutRemoteChangegroup
	case "batch":
		// The answers of a batch are told apart by their place only, and none
		// of those whose order is free holds a comma or a semicolon unescaped.
		norm = func(s string) string {
			items := strings.Split(s, ";")
			for i := range items {
				items[i] = sortedLines(withoutRemoteChangegroup(items[i]))
			}
			return fmt.Sprint(items)
		}
	}
	if w, g := norm(stock), norm(vcsd); w != g {
		return []string{fmt.Sprintf("got %.600q\n  want %.600q", vcsd, stock)}
	}
	return nil
}

// withoutRemoteChangegroup takes away what vcsd never offers: to fetch bundles
// from where a client says.
func withoutRemoteChangegroup(caps string) string {
	return strings.Replace(caps, "%0Aremote-changegroup%3Dhttp%2Chttps", "", 1)
}

// readModel asks stock for everything.
func (p *pair) readModel(t testing.TB, repo string) *model {
	t.Helper()
	known := texts{}
	a := p.do(p.stock.URL, request{repo: repo, command: "getbundle", form: inQuery, args: map[string]string{"bundlecaps": bundleCaps("02")}})
	b, err := decodeBundle(a, known, nil)
	if err != nil {
		t.Fatalf("%s: stock: %v (%s %.200q)", repo, err, a.status, a.raw)
	}
	return newModel(b.revs, known)
}

// bundleCaps is what a client says that reads bundle2 with these versions of
// changegroups.
func bundleCaps(versions string, more ...string) string {
	caps := append([]string{"HG20", "bookmarks", "changegroup=" + versions}, more...)
	return "HG20,bundle2=" + quote(strings.Join(caps, "\n"))
}

// quote escapes as the protocol does.
func quote(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func joined(nodes ...hg.Node) string {
	s := make([]string, len(nodes))
	for i, n := range nodes {
		s[i] = n.String()
	}
	return strings.Join(s, " ")
}
