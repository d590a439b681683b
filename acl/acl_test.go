package acl

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vcsd/config"
	"vcsd/hg"
	"vcsd/internal/hgtest"
)

func TestMain(m *testing.M) { hgtest.Main(m) }

// load reads text as a repository's hgrc.
func load(t *testing.T, text string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hgrc"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l := config.NewLoader()
	l.Getenv = func(string) (string, bool) { return "", false }
	c, err := l.Repository(config.New(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A change is what is known of a changeset that is pushed.
type change struct {
	node   hg.Node
	branch string
	files  []string
}

// cases are configurations and users who push the same changesets to them. What
// is to come of it, hg says.
var cases = []struct {
	name, rules string
	users       []string
}{
	{"no rules", "", []string{"ann", ""}},
	{"nobody may", "[acl.allow]", []string{"ann", ""}},
	{"no branch", "[acl.allow.branches]", []string{"ann"}},
	{"denying nobody", "[acl.deny]\n[acl.deny.branches]", []string{"ann"}},
	{"one branch denied", "[acl.deny.branches]\nfrozen = bob, ann\nother = *", []string{"ann", "bob", "cid", ""}},
	{"all branches denied", "[acl.deny.branches]\n* = ann", []string{"ann", "bob"}},
	{"one branch allowed", "[acl.allow.branches]\ndefault = *\nfrozen = ann", []string{"ann", "bob"}},
	{"all branches allowed", "[acl.allow.branches]\n* = ann", []string{"ann", "bob"}},
	{"denied before allowed", "[acl.deny.branches]\nfrozen = ann\n[acl.allow.branches]\nfrozen = ann\n* = *", []string{"ann", "bob"}},
	{"branch before files", "[acl.deny.branches]\ndefault = ann\n[acl.deny]\n** = *", []string{"ann", "bob"}},
	{"a file denied", "[acl.deny]\nsrc/main.c = ann", []string{"ann", "bob", ""}},
	{"files in directories", "[acl.allow]\nsrc/** = ann\ndocs/** = bob, ann\n* = ann", []string{"ann", "bob"}},
	{"a directory is not its files", "[acl.allow]\nsrc = ann\n**.txt = ann\na = ann", []string{"ann"}},
	{"kinds", "[acl.deny]\nre:.*\\.c$ = ann\npath:docs = bob\nrelglob:*.txt = cid\nrootfilesin:src = dan", []string{"ann", "bob", "cid", "dan", "eve"}},
	{"everybody but", "[acl.deny]\nsrc/main.c = !gollum", []string{"gollum", "ann", ""}},
	{"everybody but a group", "[acl.groups]\nhobbits = sam, pippin\n[acl.deny.branches]\nfrozen = !@hobbits", []string{"sam", "ann"}},
	{"groups", "[acl.groups]\ndevs = ann, bob\n[acl.allow]\n** = @devs", []string{"ann", "cid"}},
	{"groups of groups", "[acl.groups]\ndevs = @inner\ninner = ann\n[acl.allow]\n** = @devs", []string{"ann", "@inner"}},
	{"a group that is missing", "[acl.allow]\n** = bob, @no-such-group-here", []string{"bob", "ann"}},
	{"a group that is missing and not needed", "[acl.allow]\n** = bob\n[acl.deny]\nx = @no-such-group-here", []string{"bob"}},
	{"an empty group is the system's", "[acl.groups]\nroot =\n[acl.allow]\n** = @root", []string{"ann", "root"}},
	{"a group of the system", "[acl.deny]\n** = @daemon", []string{"daemon", "ann"}},
	{"odd names", "[acl.allow]\n** = a@b, x:y, \"quoted\", ü", []string{"a@b", "x:y", "quoted", `"quoted"`, "ü", "a", "*", "b%20c"}},
	{"a star among names", "[acl.allow]\n** = *, bob", []string{"ann", "*", "bob"}},
	{"names on lines", "[acl.allow]\n** = ann\n  bob,\n  cid", []string{"ann", "bob", "cid", "dan"}},
	{"two exclamation marks", "[acl.allow]\n** = !!ann", []string{"ann", "!ann"}},
	{"an exclamation mark alone", "[acl.allow]\n** = !", []string{"ann", ""}},
	{"a value that is empty", "[acl.allow]\n** =", []string{"ann", ""}},
	{"unset", "[acl.allow]\n** = ann\n%unset **", []string{"ann"}},
	{"an absolute pattern", "[acl.deny]\n/misty/mountains = ann", []string{"ann", "bob"}},
	{"a pattern that is wrong", "[acl.deny]\na{b = ann\n[acl.allow]\n", []string{"ann", "bob"}},
	{"an expression that is wrong", "[acl.deny]\nre:( = ann", []string{"ann", "bob"}},
	{"other sources", "[acl]\nsources = push, bundle\n[acl.allow]", []string{"ann"}},
	{"several sources", "[acl]\nsources = push serve\n[acl.allow]", []string{"ann"}},
	{"no sources", "[acl]\nsources =\n[acl.allow]", []string{"ann"}},
	{"a bookmark denied", "[acl.deny.bookmarks]\nmark = ann", []string{"ann", "bob"}},
	{"bookmarks allowed", "[acl.allow.bookmarks]\nmark = ann\nother = bob", []string{"ann", "bob"}},
	{"no bookmark", "[acl.allow.bookmarks]", []string{"ann"}},
	{"all bookmarks", "[acl.allow.bookmarks]\n* = ann\n[acl.deny.bookmarks]\nmark = bob", []string{"ann", "bob"}},
	{"bookmarks of other sources", "[acl]\nsources = push\n[acl.deny.bookmarks]\n* = *", []string{"ann"}},
}

const hooks = "[hooks]\npretxnchangegroup.acl = python:hgext.acl.hook\nprepushkey.acl = python:hgext.acl.hook\n"

// What is refused and with which words is what the extension makes of it when
// stock hgweb serves.
func TestRulesAsExtension(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init", "src")
	src := h.In("src")
	src.Commit("one", map[string]string{"a": "1", "src/main.c": "1"})
	src.Commit("two", map[string]string{"docs/x.txt": "1"})
	src.Run("branch", "frozen")
	src.Commit("three", map[string]string{"docs/x.txt": "2", "src/main.c": ""})
	src.Run("bookmark", "mark")
	changes := changesOf(t, src)
	tip := changes[len(changes)-1].node.String()

	h.Run("init", "empty")
	root := filepath.Join(h.Dir, "srv")
	server := hgtest.Serve(t, hgtest.ServerOptions{Root: mkdir(t, root), Hgweb: true})
	session := src.Session()
	verdicts := make(map[string]int)
	for i, tt := range cases {
		for j, user := range tt.users {
			name := string(rune('A'+i/26)) + string(rune('a'+i%26)) + string(rune('a'+j))
			repo := filepath.Join(root, name)
			if err := hgtest.CopyTree(filepath.Join(h.Dir, "empty"), repo); err != nil {
				t.Fatal(err)
			}
			h.Write(filepath.Join("srv", name, ".hg", "hgrc"), hooks+tt.rules+"\n")
			r := session.Try("push", "--new-branch", "-B", "mark", server.User("http", user)+"/"+name)
			want := refusal(r)
			got := verdict(t, New(load(t, tt.rules), repo, nil), user, changes, tip)
			if got != want {
				t.Errorf("%s, user %q: %q, hg says %q\n%s", tt.name, user, got, want, r.Stdout+r.Stderr)
			}
			verdicts[strings.SplitN(want, " on ", 2)[0]]++
		}
	}
	if len(verdicts) < 10 {
		t.Errorf("too few different outcomes: %v", verdicts)
	}
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// refusal returns the server's sentence, or an empty string if the push went
// through.
func refusal(r hgtest.Result) string {
	all := r.Stdout + r.Stderr
	for line := range strings.Lines(all) {
		if _, s, ok := strings.Cut(line, " hook failed: "); ok {
			return strings.TrimSpace(s)
		}
	}
	if r.Code != 0 {
		return "exit status without a hook's word: " + all
	}
	return ""
}

func changesOf(t *testing.T, h *hgtest.HG) []change {
	t.Helper()
	var out []change
	for line := range strings.Lines(h.Run("log", "-r", "all()", "-T", "{node} {branch} {join(files, ' ')}\n")) {
		words := strings.Fields(line)
		n, err := hg.ParseNode(words[0])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, change{n, words[1], words[2:]})
	}
	return out
}

// verdict is what these rules say of a push.
func verdict(t *testing.T, r *Rules, user string, changes []change, tip string) string {
	t.Helper()
	err := checkAll(r, user, changes)
	if err == nil {
		err = r.Bookmark(user, "mark", tip)
	}
	if err == nil {
		return ""
	}
	var abort *hg.Abort
	if !errors.As(err, &abort) {
		t.Fatalf("user %q: %v is no *hg.Abort", user, err)
	}
	return abort.Message
}

func checkAll(r *Rules, user string, changes []change) error {
	if !r.Applies("serve") {
		return nil
	}
	c, err := r.Changesets(user)
	if err != nil {
		return err
	}
	for _, ch := range changes {
		if err := c.Check(ch.node, ch.branch, ch.files); err != nil {
			return err
		}
	}
	return nil
}

func TestConfigFileIsRefused(t *testing.T) {
	_, err := New(load(t, "[acl]\nconfig = /etc/acl\n"), "/repo", nil).Changesets("ann")
	if err == nil || !strings.Contains(err.Error(), "acl.config") {
		t.Errorf("acl.config: %v", err)
	}
}

func TestCheckPoint(t *testing.T) {
	for point, ok := range map[string]bool{"pretxnchangegroup": true, "prepushkey": true, "pretxnclose-bookmark": false, "incoming": false} {
		if err := CheckPoint(point); (err == nil) != ok {
			t.Errorf("%s: %v", point, err)
		}
	}
}

func TestMembers(t *testing.T) {
	const text = "root:x:0:\n# a comment\nbad:x\nstaff:x:50:ann,bob\nstaff:x:51:cid\nlast:x:9:dan"
	tests := []struct {
		group string
		want  []string
		ok    bool
	}{
		{"root", nil, true}, {"staff", []string{"ann", "bob"}, true}, {"last", []string{"dan"}, true}, {"bad", nil, false}, {"", nil, false},
	}
	for _, tt := range tests {
		if got, ok := membersIn(text, tt.group); !slices.Equal(got, tt.want) || ok != tt.ok {
			t.Errorf("%q: %q, %v; want %q, %v", tt.group, got, ok, tt.want, tt.ok)
		}
	}
}
