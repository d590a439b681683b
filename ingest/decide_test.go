package ingest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/wire"
	"vcsd/wire/bundle2"
	"vcsd/wire/changegroup"
	"vcsd/wire/obsmarker"
)

var update = flag.Bool("update", false, "rewrite the outcomes in testdata by what hg serve answers")

// A server takes the pushes of a script: a pipeline, or stock hg.
type server interface {
	publish(on bool)
	// singleHead sets the options of that, "yes", "public" and "closed".
	singleHead(options []string)
	// unbundle returns the bundle2 answer.
	unbundle(t *testing.T, bundle []byte) []byte
	secret(t *testing.T, node hg.Node)
	// describe returns a line "NODE PHASE" for each changeset, with "obsolete"
	// and "hidden" behind it, or "head" if clients see it as one; "NAME=NODE" for
	// bookmarks; "BRANCH=NODE NODE" for the heads of branches.
	describe(t *testing.T) (changesets, bookmarks, branches []string)
}

// TestDecide runs the scripts in testdata/decide. Each step is a command, and
// below "----" what hg serve answers and what the repository is afterwards;
// -update asks it.
//
//	changes a; b on a; m on a b branch=x closes
//	publishing no
//	singlehead yes closed
//	secret a
//	push
//	  PART ARGUMENT...
//
// In arguments a name stands for a node, NAME=- for none, A>B,C for a marker.
func TestDecide(t *testing.T) {
	scripts, err := filepath.Glob("testdata/decide/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var stock *hgtest.Server
	if *update {
		stock = hgtest.Serve(t, hgtest.ServerOptions{Root: t.TempDir(), Stock: true})
	}
	for _, file := range scripts {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n\n")
		if *update {
			b = []byte(runScript(t, newStock(t, stock, name), steps))
			if err := os.WriteFile(file, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(name, func(t *testing.T) {
			diffScript(t, string(b), runScript(t, &vcsdServer{newNode(t)}, steps))
		})
	}
}

func diffScript(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			t.Errorf("line %d: got %q, want %q; whole outcome:\n%s", i+1, g[i], w[i], got)
			return
		}
	}
	if len(w) != len(g) {
		t.Errorf("got %d lines, want %d; whole outcome:\n%s", len(g), len(w), got)
	}
}

// A script is a run of one file.
type script struct {
	t     *testing.T
	s     server
	made  map[string]*hgtest.Changeset
	names map[string]string // by node in hexadecimal, long or short
}

func runScript(t *testing.T, s server, steps []string) string {
	r := &script{t: t, s: s, made: map[string]*hgtest.Changeset{}, names: map[string]string{
		hg.NullNode.String(): "null", hg.NullNode.Short(): "null",
	}}
	var out strings.Builder
	for i, step := range steps {
		command, _, _ := strings.Cut(step, "\n----")
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s\n", command)
		if result := r.run(command); result != "" {
			fmt.Fprintf(&out, "----\n%s", result)
		}
	}
	return out.String()
}

func (r *script) run(command string) string {
	r.t.Helper()
	for strings.HasPrefix(command, "#") {
		_, command, _ = strings.Cut(command, "\n")
	}
	first, rest, _ := strings.Cut(command, "\n")
	verb, args, _ := strings.Cut(first, " ")
	switch verb {
	case "publishing":
		r.s.publish(args == "yes")
	case "singlehead":
		r.s.singleHead(strings.Fields(args))
	case "changes":
		for spec := range strings.SplitSeq(args, ";") {
			r.change(strings.Fields(spec))
		}
	case "secret":
		r.s.secret(r.t, r.made[args].Node())
		return r.state()
	case "push":
		return r.reply(r.s.unbundle(r.t, r.bundle(strings.Split(rest, "\n")))) + r.state()
	default:
		r.t.Fatalf("unknown command %q", command)
	}
	return ""
}

// change makes a changeset: NAME [on PARENT [PARENT]] [branch=B] [closes].
func (r *script) change(spec []string) {
	name, parents, branch, extra := spec[0], []*hgtest.Changeset{nil, nil}, "", ""
	n := 0
	for _, w := range spec[1:] {
		switch b, isBranch := strings.CutPrefix(w, "branch="); {
		case w == "on":
		case isBranch:
			branch = b
			extra = " branch:" + b
		case w == "closes":
			extra += "\x00close:1"
		default:
			parents[n] = r.made[w]
			n++
		}
	}
	if strings.HasPrefix(extra, "\x00") {
		extra = " " + extra[1:]
	}
	c := hgtest.NewChangeset(parents[0], branch, name, map[string]string{"f-" + name: name})
	var p1, p2 hg.Node
	if parents[0] != nil {
		p1 = parents[0].Node()
	}
	if parents[1] != nil {
		p2 = parents[1].Node()
	}
	text := fmt.Sprintf("%s\nBob <bob@example.com>\n1700000000 0%s\nf-%s\n\n%s", c.Manifest.Node, extra, name, name)
	c.Changelog = hgtest.NewRev(p1, p2, []byte(text))
	link := c.Changelog.Node
	c.Changelog.Link, c.Manifest.Link, c.Files[0].Rev.Link = link, link, link
	r.made[name] = c
	r.names[link.String()], r.names[link.Short()] = name, name
}

func (r *script) node(name string) hg.Node {
	switch name {
	case "-":
		return hg.WorkingNode
	case "null":
		return hg.NullNode
	}
	c := r.made[name]
	if c == nil {
		r.t.Fatalf("no changeset %q", name)
	}
	return c.Node()
}

func (r *script) bundle(lines []string) []byte {
	parts := []hgtest.Part{{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)}}
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 0 {
			parts = append(parts, r.part(f[0], f[1:]))
		}
	}
	return hgtest.Bundle2(parts...)
}

func (r *script) part(kind string, args []string) hgtest.Part {
	p := hgtest.Part{Type: strings.ToUpper(kind)}
	switch strings.ToLower(kind) {
	case "check:heads", "check:updated-heads":
		for _, a := range args {
			n := r.node(a)
			p.Payload = append(p.Payload, n[:]...)
		}
	case "check:bookmarks", "bookmarks":
		for _, a := range args {
			name, node, _ := strings.Cut(a, "=")
			p.Payload = append(p.Payload, bookmarkEntry(name, r.node(node))...)
		}
	case "check:phases", "phase-heads":
		for _, a := range args {
			phase, node, _ := strings.Cut(a, "=")
			n := map[string]hg.Phase{"public": hg.Public, "draft": hg.Draft, "secret": hg.Secret}[phase]
			p.Payload = append(p.Payload, phaseEntry(n, r.node(node))...)
		}
	case "changegroup":
		var all []*hgtest.Changeset
		for _, a := range args {
			all = append(all, r.made[a])
		}
		p.Mandatory, p.Payload = []hgtest.Param{{Name: "version", Value: "02"}}, hgtest.ChangegroupOf(all...)
	case "changegroup3":
		p = r.part("changegroup", args)
		p.Mandatory[0].Value, p.Payload = "03", toVersion3(r.t, p.Payload)
	case "obsmarkers":
		p.Type = kind // its case counts
		b, err := obsmarker.Encode(r.markers(args))
		if err != nil {
			r.t.Fatal(err)
		}
		p.Payload = b
	case "pushkey":
		p.Type = kind // its case counts
		for i, name := range []string{"namespace", "key", "old", "new"} {
			v := args[i]
			if strings.Contains(v, ">") {
				v = obsmarker.PushKeys(r.markers([]string{v}))["dump0"]
			}
			if n, ok := strings.CutPrefix(v, "@"); ok {
				v = r.node(n).String()
			}
			p.Mandatory = append(p.Mandatory, hgtest.Param{Name: name, Value: strings.Trim(v, `"`)})
		}
	default:
		p.Type, p.Payload = kind, []byte(strings.Join(args, " "))
	}
	return p
}

// toVersion3 turns a changegroup of version 02 into one of version 03.
func toVersion3(t *testing.T, group []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	r, w := changegroup.NewReader(bytes.NewReader(group), changegroup.V02, changegroup.Limits{}), changegroup.NewWriter(&out, changegroup.V03)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for {
		g, err := r.NextGroup()
		if errors.Is(err, io.EOF) {
			must(w.Close())
			return out.Bytes()
		}
		must(err)
		switch g.Kind {
		case changegroup.Changelog:
			must(w.StartChangelog())
		case changegroup.Manifest:
			must(w.StartManifest())
		default:
			must(w.StartFile(g.Path))
		}
		for {
			h, delta, err := r.NextDelta()
			if errors.Is(err, io.EOF) {
				break
			}
			must(err)
			must(w.WriteDelta(h, delta))
		}
		must(w.EndGroup())
	}
}

// markers reads A>B,C or A>^P: the parents recorded of A are behind "^".
func (r *script) markers(args []string) []obsmarker.Marker {
	var out []obsmarker.Marker
	for _, a := range args {
		prec, rest, _ := strings.Cut(a, ">")
		succs, parents, hasParents := strings.Cut(rest, "^")
		m := obsmarker.Marker{
			Prec: r.node(prec), Date: obsmarker.Date{Seconds: 1700000000}, HasParents: hasParents,
			Meta: []obsmarker.Meta{{Key: "user", Value: "bob"}},
		}
		for _, s := range strings.FieldsFunc(succs, func(c rune) bool { return c == ',' }) {
			m.Succs = append(m.Succs, r.node(s))
		}
		for _, s := range strings.FieldsFunc(parents, func(c rune) bool { return c == ',' }) {
			m.Parents = append(m.Parents, r.node(s))
		}
		out = append(out, m)
	}
	return out
}

var hexNode = regexp.MustCompile(`\b([0-9a-f]{40}|[0-9a-f]{12})\b`)

// named replaces nodes by names.
func (r *script) named(s string) string {
	return hexNode.ReplaceAllStringFunc(s, func(h string) string {
		if name, ok := r.names[h]; ok {
			return name
		}
		return h
	})
}

func (r *script) reply(answer []byte) string {
	parts, err := hgtest.ParseBundle2(answer)
	if err != nil {
		r.t.Fatalf("answer %q: %v", answer, err)
	}
	var b, output strings.Builder
	for _, p := range parts {
		if p.Type == "output" {
			// hg makes more parts of it, some of them empty.
			output.Write(p.Payload)
			continue
		}
		b.WriteString(p.Type)
		for _, q := range slices.Concat(p.Mandatory, p.Advisory) {
			if q.Name == "ret" {
				continue // hg knows it and does not send it
			}
			if q.Name == "in-reply-to" && !strings.HasPrefix(strings.ToLower(p.Type), "error") {
				continue
			}
			fmt.Fprintf(&b, " %s=%q", q.Name, q.Value)
		}
		b.WriteString("\n")
	}
	for line := range strings.Lines(output.String()) {
		b.WriteString("output: " + line)
	}
	return r.named(b.String())
}

func (r *script) state() string {
	changesets, bookmarks, branches := r.s.describe(r.t)
	for _, list := range [][]string{changesets, bookmarks, branches} {
		for i := range list {
			list[i] = r.named(list[i])
		}
		slices.Sort(list)
	}
	out := "changesets: " + strings.Join(changesets, ", ") + "\n"
	out += "branches: " + strings.Join(branches, ", ") + "\n"
	if len(bookmarks) > 0 {
		out += "bookmarks: " + strings.Join(bookmarks, ", ") + "\n"
	}
	return out
}

// vcsdServer is a pipeline.
type vcsdServer struct{ *node }

func (s *vcsdServer) publish(on bool) { s.publishing = on }

func (s *vcsdServer) singleHead(options []string) {
	s.node.singleHead = SingleHead{
		Enabled: slices.Contains(options, "yes"), PublicOnly: slices.Contains(options, "public"), Closed: slices.Contains(options, "closed"),
	}
}

func (s *vcsdServer) unbundle(t *testing.T, bundle []byte) []byte {
	t.Helper()
	reply, err := s.try(bundle)
	if err != nil {
		var caps bundle2.Caps
		output := ""
		if reply != nil {
			caps, output = reply.Caps, reply.Output
		}
		b, werr := wire.EncodeErrorReply(err, caps, output)
		if werr != nil {
			t.Fatal(werr)
		}
		return b
	}
	return encodeParts(t, reply)
}

func encodeParts(t *testing.T, reply *Reply) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := bundle2.NewWriter(&b, bundle2.WriterOptions{})
	for _, p := range reply.Parts {
		var params []bundle2.Param
		for _, kv := range p.Params {
			params = append(params, bundle2.Param{Key: kv.Key, Value: kv.Value})
		}
		_, werr := w.WritePart(p.Type, p.Mandatory, p.Payload, params...)
		err = errors.Join(err, werr)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (s *vcsdServer) secret(t *testing.T, node hg.Node) {
	t.Helper()
	b, _ := s.fs.Open("store/phaseroots")
	var old []byte
	if b != nil {
		b.Close()
		old = readAll(t, s.fs, "store/phaseroots")
	}
	writeFile(t, s.fs, "store/phaseroots", string(old)+"2 "+node.String()+"\n")
}

func (s *vcsdServer) describe(t *testing.T) (changesets, bookmarks, branches []string) {
	v := s.view()
	defer v.Close()
	for r := range hg.Rev(v.Len()) {
		line := fmt.Sprintf("%s %s", v.Changelog().Node(r), v.Phase(r))
		if v.Obsolete(r) {
			line += " obsolete"
		}
		if !v.Visible(r) {
			line += " hidden"
		}
		if slices.Contains(v.HeadRevs(), r) {
			line += " head"
		}
		changesets = append(changesets, line)
	}
	for name, n := range v.Bookmarks() {
		bookmarks = append(bookmarks, name+"="+n.String())
	}
	for name, heads := range v.EachBranch() {
		branches = append(branches, name+"="+hgtest.JoinNodes(nodesOf(newPending(v), heads)))
	}
	return changesets, bookmarks, branches
}

// stockServer is hg serve.
type stockServer struct {
	h      *hgtest.Session
	client *hgtest.Client
	dir    string

	publishes bool
	single    []string
}

func newStock(t *testing.T, s *hgtest.Server, name string) *stockServer {
	t.Helper()
	dir := s.Repo(name)
	h := hgtest.New(t)
	h.Run("init", dir)
	st := &stockServer{client: hgtest.NewClient(t, s.URL+"/"+name), dir: dir, publishes: true}
	st.configure()
	st.h = h.In(dir).Session()
	return st
}

func (s *stockServer) publish(on bool) {
	s.publishes = on
	s.configure()
}

func (s *stockServer) singleHead(options []string) {
	s.single = options
	s.configure()
}

func (s *stockServer) configure() {
	conf := fmt.Sprintf("[phases]\npublish = %v\n[experimental]\nevolution = all\n", s.publishes)
	for option, key := range map[string]string{"yes": "", "public": ":public-changes-only", "closed": ":account-closed-heads"} {
		if slices.Contains(s.single, option) {
			conf += "single-head-per-branch" + key + " = yes\n"
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, ".hg", "hgrc"), []byte(conf), 0o644); err != nil {
		panic(err)
	}
}

func (s *stockServer) unbundle(t *testing.T, bundle []byte) []byte {
	t.Helper()
	a, err := s.client.Unbundle(t.Context(), hgtest.Force, bundle)
	if err != nil {
		t.Fatal(err)
	}
	b, err := a.Payload()
	if err != nil {
		t.Fatalf("status %d: %v", a.Status, err)
	}
	return b
}

func (s *stockServer) secret(t *testing.T, node hg.Node) {
	s.h.Run("phase", "--hidden", "-f", "-s", "-r", node.String())
}

func (s *stockServer) describe(t *testing.T) (changesets, bookmarks, branches []string) {
	heads := s.client.Heads()
	for line := range strings.Lines(s.h.Run("log", "--hidden", "-T", "{node} {phase} {obsolete}\n")) {
		line = strings.TrimSpace(line)
		n, err := hg.ParseNode(line[:40])
		if err != nil {
			t.Fatal(err)
		}
		if !s.client.Known(n)[0] {
			line += " hidden"
		}
		if slices.Contains(heads, n) {
			line += " head"
		}
		changesets = append(changesets, line)
	}
	for line := range strings.Lines(s.h.Run("bookmarks", "-T", "{bookmark}={node}\n")) {
		if strings.Contains(line, "=") {
			bookmarks = append(bookmarks, strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(s.client.Text("branchmap", nil)) {
		name, heads, _ := strings.Cut(strings.TrimSpace(line), " ")
		branches = append(branches, name+"="+heads)
	}
	return changesets, bookmarks, branches
}
