package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// aclRules guard branches, files and bookmarks from named users.
const aclRules = `[hooks]
pretxnchangegroup.acl = python:hgext.acl.hook
prepushkey.acl = python:hgext.acl.hook
[web]
allow-push = *
push_ssl = no
[acl.groups]
devs = ann, bob, o'hara
[acl.deny.branches]
frozen = !ann
[acl.allow]
src/** = @devs
relglob:*.txt = *
a = ann, bob
[acl.deny]
src/main.c = bob
[acl.allow.bookmarks]
mark = @devs
free = *
`

// What named users may push, and what they are told, is what stock hgweb makes
// of it with the extension.
func TestRulesOfACLAsHgweb(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init", "src")
	src := h.In("src")
	src.Commit("one", map[string]string{"a": "1"})
	src.Commit("two", map[string]string{"src/main.c": "1", "docs/x.txt": "1"})
	src.Run("up", "-q", "0")
	src.Commit("three", map[string]string{"docs/y.txt": "1"})
	src.Run("merge", "-q", "-r", "1")
	src.Commit("merged", nil)
	src.Run("branch", "-q", "frozen")
	src.Commit("four", map[string]string{"docs/x.txt": "2"})
	src.Run("phase", "-p", "-r", "all()") // or the first push would change what the next one sends
	src.Run("bookmark", "-r", "0", "mark")
	src.Run("bookmark", "-r", "0", "free")
	pushes := [][]string{
		{"-r", "0"},
		{"-r", "1"},
		{"-r", "3"},
		{"-r", "4"},
		{"-r", "0", "-B", "mark"},
		{"-r", "0", "-B", "free"},
		{"-r", "2", "-B", "free", "-B", "mark"},
		{"-r", "3", "--config", "devel.legacy.exchange=bundle1"},
	}
	users := []string{"ann", "bob", "o'hara", ""}
	h.Run("init", "srv/empty")
	h.Write("srv/empty/.hg/hgrc", aclRules)
	root := filepath.Join(h.Dir, "srv")
	for _, side := range []string{"stock", "tested"} {
		for i := range users {
			for j := range pushes {
				if err := hgtest.CopyTree(filepath.Join(root, "empty"), filepath.Join(root, fmt.Sprintf("%s%d%d", side, i, j))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	stock := hgtest.Serve(t, hgtest.ServerOptions{Root: root, Hgweb: true, Config: []string{"web.refreshinterval=3600"}})
	tested := hgtest.Serve(t, hgtest.ServerOptions{Root: root, ByRoot: true, Config: []string{
		"vcsd.proxy-user-header=X-Remote-User", "vcsd.trusted-proxies=127.0.0.1",
	}})
	session := src.Session()
	refused := 0
	for i, user := range users {
		proxy := tested.URL
		if user != "" {
			proxy = startProxy(t, tested.URL, []string{"X-Remote-User=" + user})
		}
		for j, args := range pushes {
			push := func(url, repo string) string {
				r := session.Try(append([]string{"push", "-f", "--new-branch", url + "/" + repo}, args...)...)
				has := session.Try("log", "-R", filepath.Join(root, repo), "-r", "all()", "-T", "{node} {phase} {bookmarks}\n")
				return told(r) + has.Stdout + has.Stderr
			}
			want := push(stock.User("http", user), fmt.Sprintf("stock%d%d", i, j))
			got := push(proxy, fmt.Sprintf("tested%d%d", i, j))
			if got != want {
				t.Errorf("user %q, push %q:\n%s\nstock:\n%s", user, args, got, want)
			}
			if strings.Contains(want, "acl: ") {
				refused++
			}
		}
	}
	if all := len(users) * len(pushes); refused < all/4 || refused > all*3/4 {
		t.Errorf("%d of %d pushes refused; too few of one kind", refused, all)
	}
}

var (
	repoURL = regexp.MustCompile(`http://\S+`)

	// oldAbort is how a push without bundle2 is told why it was refused. Stock
	// tells it to its own terminal.
	oldAbort = regexp.MustCompile(`(?m)^remote: abort: .*\n`)
)

// told returns what a user sees, without the server's address.
func told(r hgtest.Result) string {
	out := oldAbort.ReplaceAllString(repoURL.ReplaceAllString(r.Stdout, "URL"), "")
	return fmt.Sprintf("exit status %d\n%s%s", r.Code, strings.TrimRight(out, "\n"), r.Stderr)
}
