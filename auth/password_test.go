package auth

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tg123/go-htpasswd"
	"golang.org/x/sync/semaphore"
)

func TestTablesThatAreRefused(t *testing.T) {
	for _, content := range []string{"ann:plain\n", "ann\n", "ann:\n", ":$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.\n", "ann:$2y$10$short\n"} {
		if _, err := parseTable([]byte(content)); err == nil {
			t.Errorf("%q was taken", content)
		}
	}
}

func TestKinds(t *testing.T) {
	tests := []struct{ encoded, want string }{
		{"$apr1$salt$hash", "apr1"},
		{"$1$salt$hash", "1"},
		{"$2y$05$" + strings.Repeat("x", 53), "2$05"},
		{"$2a$05$" + strings.Repeat("x", 53), "2$05"},
		{"$2y$12$" + strings.Repeat("x", 53), "2$12"},
		{"$6$salt$hash", "6"},
		{"$6$rounds=9000$salt$hash", "6$rounds=9000"},
		{"{SHA}xyz", "{SHA"},
		{"{SSHA}xyz", "{SSHA"},
	}
	for _, tt := range tests {
		if got := kindOf(tt.encoded); got != tt.want {
			t.Errorf("kindOf(%q) = %q, want %q", tt.encoded, got, tt.want)
		}
	}
}

// A counted hash counts how often it is compared, and with what.
type counted struct {
	name     string
	compared *[]string
}

func (c counted) MatchesPassword(password string) bool {
	*c.compared = append(*c.compared, c.name)
	return password == c.name
}

// Whoever asks, right or wrong, known or not: one hash of each kind is compared.
func TestComparingTakesAsLongForAll(t *testing.T) {
	var compared []string
	hash := func(name, kind string) hashed { return hashed{counted{name, &compared}, kind} }
	tab := &table{
		users:  map[string]hashed{"ann": hash("ann", "slow"), "bob": hash("bob", "quick"), "cid": hash("cid", "slow")},
		decoys: []hashed{hash("ann", "slow"), hash("bob", "quick")},
	}
	tests := []struct {
		user, password string
		right          bool
		want           []string
	}{
		{"ann", "ann", true, []string{"ann", "bob"}},
		{"ann", "bob", false, []string{"ann", "bob"}}, // a decoy's password is nobody else's
		{"bob", "bob", true, []string{"ann", "bob"}},
		{"cid", "cid", true, []string{"cid", "bob"}},
		{"cid", "ann", false, []string{"cid", "bob"}},
		{"eve", "ann", false, []string{"ann", "bob"}},
		{"eve", "bob", false, []string{"ann", "bob"}},
	}
	for _, tt := range tests {
		compared = nil
		if got := tab.matches(tt.user, tt.password); got != tt.right || !slices.Equal(compared, tt.want) {
			t.Errorf("%s:%s: %v after comparing %v; want %v, %v", tt.user, tt.password, got, compared, tt.right, tt.want)
		}
	}
}

// A gate is a hash that is compared once somebody opens it.
type gate struct {
	arrived, open chan struct{}
	n             *atomic.Int64
}

func (g gate) MatchesPassword(password string) bool {
	g.n.Add(1)
	g.arrived <- struct{}{}
	<-g.open
	return password == "right"
}

// gated returns passwords with one user, whose hash waits.
func gated(t *testing.T) (*Passwords, gate, string) {
	t.Helper()
	p, path := openPasswords(t, "ann:$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.\n")
	g := gate{make(chan struct{}, 10000), make(chan struct{}), new(atomic.Int64)}
	current, err := p.file.Get()
	if err != nil {
		t.Fatal(err)
	}
	p.hashesAtOnce, p.hashing = 2, semaphore.NewWeighted(2)
	h := hashed{htpasswd.EncodedPasswd(g), "gate"}
	current.table = &table{users: map[string]hashed{"ann": h}, decoys: []hashed{h}}
	return p, g, path
}

func TestEqualGuessesAtOnceAreOne(t *testing.T) {
	p, g, _ := gated(t)
	var wg sync.WaitGroup
	var right atomic.Int64
	for range 50 {
		wg.Go(func() {
			ok, err := p.check(t.Context(), somewhere.Addr, "ann", "right")
			if err != nil {
				t.Error(err)
			}
			if ok {
				right.Add(1)
			}
		})
	}
	<-g.arrived
	close(g.open)
	wg.Wait()
	if right.Load() != 50 || g.n.Load() != 1 {
		t.Errorf("%d of 50 were right, after %d comparisons; want 50 after one", right.Load(), g.n.Load())
	}
}

// A verdict that is being found when the file changes is none on the new file.
func TestVerdictInFlightEndsWithItsFile(t *testing.T) {
	p, g, path := gated(t)
	done := make(chan bool)
	go func() {
		ok, err := p.check(t.Context(), somewhere.Addr, "ann", "right")
		done <- ok && err == nil
	}()
	<-g.arrived
	write(t, filepath.Dir(path), "htpasswd", "bob:$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.\n")
	if ok, err := p.check(t.Context(), somewhere.Addr, "ann", "right"); ok || err != nil {
		t.Errorf("a user who was removed: %v, %v", ok, err)
	}
	close(g.open)
	if !<-done {
		t.Error("the check that came before the change failed")
	}
	if ok, err := p.check(t.Context(), somewhere.Addr, "ann", "right"); ok || err != nil {
		t.Errorf("a user who was removed, afterwards: %v, %v", ok, err)
	}
}

func TestHashQueueIsBounded(t *testing.T) { synctest.Test(t, testHashQueueIsBounded) }

func testHashQueueIsBounded(t *testing.T) {
	p, g, _ := gated(t)
	ctx, cancel := context.WithCancel(t.Context())
	const beyond = 10
	var wg sync.WaitGroup
	refused := make(chan struct{}, beyond)
	for i := range p.hashesAtOnce + maxHashQueue + beyond {
		wg.Go(func() {
			_, err := p.check(ctx, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), fmt.Sprint(i), "guess")
			if r, ok := err.(*Refusal); ok && r.Status == http.StatusServiceUnavailable {
				refused <- struct{}{}
			}
		})
	}
	for range beyond {
		select {
		case <-refused:
		case <-time.After(time.Minute):
			t.Fatal("too few were refused")
		}
	}
	cancel()
	close(g.open)
	wg.Wait()
	synctest.Wait() // for the guesses that nobody waits for any more
	if n := p.queued.Load(); n != 0 || len(refused) != 0 {
		t.Errorf("%d are left in the queue, and %d more were refused", n, len(refused))
	}
}

func TestParallelGuessesDontHashAtOnce(t *testing.T) {
	p, g, _ := gated(t)
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() { _, _ = p.check(ctx, somewhere.Addr, "ann", fmt.Sprint(i)) })
	}
	<-g.arrived
	cancel()
	close(g.open)
	wg.Wait()
	most := int64(userRate.burst) + int64(time.Since(start)/userRate.interval)
	if n := g.n.Load(); n > most {
		t.Errorf("of 100 guesses at one user, %d were hashed at once; want at most %d", n, most)
	}
}
