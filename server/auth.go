package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	"github.com/tg123/go-htpasswd"
	"golang.org/x/sync/semaphore"
	"lukechampine.com/blake3"

	"vcsd/wire"
)

// An authenticator checks names and passwords against an htpasswd file, which
// is read again when it changes. A nil one knows nobody and asks nobody.
type authenticator struct {
	path  string
	realm string

	// secret keys the digests of credentials, so that memory holds no password
	// and no hash that could be tried against a list.
	secret [32]byte
	// verdicts are the digests of credentials that were right: hashing a
	// password costs some hundred milliseconds on purpose.
	verdicts *expirable.LRU[[32]byte, struct{}]
	// failures slow down who guesses, by address.
	failures *expirable.LRU[string, *failure]
	// hashing bounds how many passwords are hashed at once.
	hashing *semaphore.Weighted

	mu    sync.Mutex
	print os.FileInfo                       // of the file as read; guarded by mu
	users map[string]htpasswd.EncodedPasswd // guarded by mu; not changed once set
	decoy htpasswd.EncodedPasswd            // what unknown users are compared with; guarded by mu
}

const (
	verdictAge   = 5 * time.Minute
	maxVerdicts  = 4096
	maxFailures  = 4096
	failureAge   = time.Minute
	freeFailures = 5           // wrong passwords from one address before it has to wait
	failureDelay = time.Second // that each one more has to wait
	hashesAtOnce = 2
)

// A failure counts wrong passwords of one address.
type failure struct {
	mu sync.Mutex
	n  int // guarded by mu
}

// passwordSystems are the hashes that a file may hold. Plain text is none.
var passwordSystems = []htpasswd.PasswdParser{
	htpasswd.AcceptBcrypt, htpasswd.AcceptMd5, htpasswd.AcceptCryptSha, htpasswd.AcceptSsha, htpasswd.AcceptSha,
}

// newAuthenticator reads the file, which must be there and sound.
func newAuthenticator(path, realm string) (*authenticator, error) {
	a := &authenticator{
		path: path, realm: realm,
		verdicts: expirable.NewLRU[[32]byte, struct{}](maxVerdicts, nil, verdictAge),
		failures: expirable.NewLRU[string, *failure](maxFailures, nil, failureAge),
		hashing:  semaphore.NewWeighted(hashesAtOnce),
	}
	if _, err := rand.Read(a.secret[:]); err != nil {
		return nil, err
	}
	_, _, err := a.lookup("")
	return a, err
}

// lookup returns what to compare a user's password with; for an unknown user
// that is somebody else's, so that the answer takes as long.
func (a *authenticator) lookup(user string) (hash htpasswd.EncodedPasswd, known bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	info, err := os.Stat(a.path)
	if err != nil {
		return nil, false, err
	}
	if a.print == nil || info.Size() != a.print.Size() || info.ModTime() != a.print.ModTime() || !os.SameFile(info, a.print) {
		if err := a.readLocked(); err != nil {
			return nil, false, err
		}
		a.print = info
		a.verdicts.Purge()
	}
	if hash, known = a.users[user]; !known {
		hash = a.decoy
	}
	return hash, known, nil
}

func (a *authenticator) readLocked() error {
	b, err := os.ReadFile(a.path)
	if err != nil {
		return err
	}
	users := make(map[string]htpasswd.EncodedPasswd)
	var decoy htpasswd.EncodedPasswd
	s := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		user, encoded, ok := strings.Cut(line, ":")
		hash := parsePassword(encoded)
		if !ok || hash == nil {
			return fmt.Errorf("%s:%d: not a user with a hashed password", a.path, n)
		}
		users[user] = hash
		if decoy == nil {
			decoy = hash
		}
	}
	if s.Err() != nil {
		return s.Err()
	}
	a.users, a.decoy = users, decoy
	return nil
}

func parsePassword(encoded string) htpasswd.EncodedPasswd {
	for _, parse := range passwordSystems {
		if hash, err := parse(encoded); err == nil && hash != nil {
			return hash
		}
	}
	return nil
}

// user returns the name of who sent a request, empty if it brought no
// credentials. Wrong ones are a *wire.StatusError.
func (a *authenticator) user(r *http.Request) (string, error) {
	if a == nil {
		return "", nil
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return "", nil
	}
	right, err := a.check(r.Context(), name, password, peer(r).Host)
	if err != nil {
		return "", err
	}
	if !right {
		return "", a.challenge(&wire.StatusError{Code: http.StatusUnauthorized, Reason: "authorization failed"})
	}
	return name, nil
}

// check compares a password, slowly on purpose, unless it was right before.
func (a *authenticator) check(ctx context.Context, name, password, address string) (bool, error) {
	hash, known, err := a.lookup(name)
	if err != nil || hash == nil {
		return false, err
	}
	key := a.digest(name, password)
	if _, ok := a.verdicts.Get(key); ok && known {
		return true, nil
	}
	if err := a.slowDown(ctx, address); err != nil {
		return false, err
	}
	if err := a.hashing.Acquire(ctx, 1); err != nil {
		return false, err
	}
	right := hash.MatchesPassword(password) && known
	a.hashing.Release(1)
	if right {
		a.verdicts.Add(key, struct{}{})
		a.failures.Remove(address)
		return true, nil
	}
	a.failed(address)
	return false, nil
}

func (a *authenticator) digest(name, password string) [32]byte {
	h := blake3.New(32, a.secret[:])
	fmt.Fprintf(h, "%d:%s%s", len(name), name, password)
	return [32]byte(h.Sum(nil))
}

// slowDown makes an address wait that sent many wrong passwords lately.
func (a *authenticator) slowDown(ctx context.Context, address string) error {
	f, ok := a.failures.Get(address)
	if !ok {
		return nil
	}
	f.mu.Lock()
	over := f.n - freeFailures
	f.mu.Unlock()
	if over < 0 {
		return nil
	}
	t := time.NewTimer(failureDelay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *authenticator) failed(address string) {
	f, ok := a.failures.Get(address)
	if !ok {
		f = new(failure)
		a.failures.Add(address, f)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

// challenge adds to a 401 what to authenticate with.
func (a *authenticator) challenge(e *wire.StatusError) *wire.StatusError {
	if a == nil || e.Code != http.StatusUnauthorized {
		return e
	}
	c := *e
	c.Header = e.Header.Clone()
	if c.Header == nil {
		c.Header = make(http.Header)
	}
	c.Header.Set("WWW-Authenticate", "Basic realm="+strconv.Quote(a.realm))
	return &c
}
