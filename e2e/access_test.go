package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// accessRules are the keys of [web] in the hgrc of a repository.
var accessRules = []string{
	"",
	"allow-push = *",
	"allow-push = ann",
	"allow_push = ann",
	"allow-push = ann\nallow_push = bob",
	"allow_push = bob\nallow-push = ann",
	"allow-push =",
	"allow-push = ,",
	"allow-push = *, ann",
	"allow-push = ann bob,cid",
	"allow-push = \"a b\", ann@corp, ü, x\\y",
	"allow-push = '*'",
	"allow-push = *\ndeny_push = ann",
	"allow-push = ann\ndeny_push = ann",
	"allow-push = *\ndeny_push = *",
	"allow-push = *\ndeny_push =",
	"allow-push = *\ndeny-push = ann",
	"allow-push = *\ndeny_push = *, ann",
	"allow_read = ann",
	"allow-read = ann",
	"allow_read = *",
	"allow_read =",
	"allow_read = *, ann",
	"deny_read = ann",
	"deny_read = *",
	"deny_read =",
	"deny_read = ann\nallow_read = ann, bob",
	"allow-push = ann\nallow_read = bob",
	"allow-push = ann, bob\nallow_read = bob\ndeny_read = cid",
	"allow-push = *\nallow-pull = no",
	"allow-push = *\nallowpull = no",
	"allow-pull = yes\nallowpull = no",
	"allow-pull = no\nallow_read = ann",
	"allow-push = *\npush_ssl = yes",
	"allow-push = *\npush_ssl = no",
	"allow-push = ann\npush_ssl = yes",
	"allow-push = *\npush-ssl = no\n%unset push_ssl",
	"allow-push = *\n%unset allow-push",
}

var (
	accessUsers = []string{"", "ann", "bob", "*"}
	oddUsers    = []string{"", "a b", "ann@corp", "ü", `x\y`, "'*'", "a", "b"}
)

// An ask is a request whose status is compared.
type ask struct {
	method, query, body string
}

var asks = []ask{
	{"GET", "", ""},
	{"GET", "cmd=capabilities", ""},
	{"POST", "cmd=heads", ""},
	{"GET", "cmd=batch&cmds=" + url.QueryEscape("heads ;known nodes="), ""},
	{"POST", "cmd=batch&cmds=" + url.QueryEscape("heads ;pushkey namespace=none,key=k,old=,new="), ""},
	{"GET", "cmd=batch&cmds=" + url.QueryEscape("pushkey namespace=none,key=k,old=,new="), ""},
	{"POST", "cmd=pushkey&namespace=none&key=k&old=&new=", ""},
	{"GET", "cmd=pushkey&namespace=none&key=k&old=&new=", ""},
	{"POST", "cmd=unbundle&heads=686173686564+78", "HG20"},
	{"PUT", "cmd=unbundle&heads=686173686564+78", "HG20"},
}

// Who may do what is what hgweb says, with its status and its words.
func TestAccessAsHgweb(t *testing.T) {
	h := hgtest.New(t)
	for i, rules := range accessRules {
		h.Run("init", fmt.Sprint(i))
		h.Write(filepath.Join(fmt.Sprint(i), ".hg", "hgrc"), "[web]\n"+rules+"\n")
	}
	stock := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Hgweb: true, Config: []string{"web.allow-push=", "web.refreshinterval=3600"}})
	tested := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, ByRoot: true, Config: []string{
		"web.allow-push=", "vcsd.proxy-user-header=X-Remote-User", "vcsd.trusted-proxies=127.0.0.1",
	}})
	seen := make(map[string]int)
	for i, rules := range accessRules {
		users := accessUsers
		if strings.ContainsAny(rules, `"'`) {
			users = oddUsers
		}
		for _, user := range users {
			for _, scheme := range []string{"http", "https"} {
				for _, a := range asks {
					if scheme == "https" && (a.method == "GET" || !strings.Contains(rules, "ssl")) {
						continue // it makes no difference
					}
					want := a.send(t, fmt.Sprintf("%s/%d", stock.User(scheme, user), i), nil)
					header := http.Header{"X-Forwarded-Proto": {scheme}}
					if user != "" {
						header.Set("X-Remote-User", user)
					}
					got := a.send(t, fmt.Sprintf("%s/%d", tested.URL, i), header)
					if got != want {
						t.Errorf("%q, user %q, %s, %s %s: %s, hgweb says %s", rules, user, scheme, a.method, a.query, got, want)
					}
					seen[want]++
				}
			}
		}
	}
	if len(seen) < 5 {
		t.Errorf("too few different answers: %v", seen)
	}
}

// send returns the status line, and the body where it isn't 200.
func (a ask) send(t *testing.T, base string, header http.Header) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), a.method, base+"?"+a.query, strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	if header == nil {
		req.Header = make(http.Header)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK {
		return "200"
	}
	if a.query == "" {
		return resp.Status // pages are drawn in another way
	}
	return resp.Status + " " + string(body)
}
