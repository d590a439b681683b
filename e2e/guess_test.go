package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"vcsd/internal/hgtest"
)

// Who guesses a user's password is told to come back later, in a sentence that
// hg prints, and the user at that address too; others are not held up.
func TestGuessing(t *testing.T) {
	if hgtest.UseStock() {
		t.Skip("stock hg serve knows no users")
	}
	h := hgtest.New(t)
	h.Run("init", "r")
	h.Write("users", "ann:$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.\nbob:$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.\n")
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: []string{
		"web.allow_read=ann,bob", "vcsd.htpasswd=" + filepath.Join(h.Dir, "users"),
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if guess(ctx, s.URL+"/r", "ann", fmt.Sprint(i, n)) == http.StatusOK {
					t.Error("a wrong password was taken")
				}
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	as := func(user, password string) string {
		return strings.Replace(s.URL, "://", "://"+user+":"+password+"@", 1) + "/r"
	}
	const want = "HTTP Error 429: too many wrong passwords, try again in"
	// Guesses come in turn, and at times hg's is the one that may wait.
	for tries := 1; !strings.Contains(h.Try("identify", as("ann", "wrong")).Stderr, want); tries++ {
		if tries == 20 {
			t.Errorf("hg never says %q", want)
			break
		}
	}
	h.Run("identify", as("bob", "s3cret"))
}

// guess asks for a repository with a password and returns the status, 0 if
// there was no answer.
func guess(ctx context.Context, repo, user, password string) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, repo+"?cmd=heads", nil)
	if err != nil {
		panic(err) // the URL is ours
	}
	req.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
