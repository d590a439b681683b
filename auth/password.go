package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"lukechampine.com/blake3"

	"vcsd/cache"
	"vcsd/internal/livefile"
	"vcsd/internal/vfs"
)

const (
	// verdictAge is how long a password that was right is remembered: hashing
	// one costs some hundred milliseconds on purpose.
	verdictAge  = 5 * time.Minute
	maxVerdicts = 4096

	// maxHashQueue is how many passwords wait to be hashed.
	maxHashQueue = 64

	// maxPasswordBytes is how long a password may be. Hashing takes longer the
	// longer it is.
	maxPasswordBytes = 512
)

// Passwords knows names and passwords by a file as Apache's htpasswd writes it
// (bcrypt, apr1, SHA-crypt and SHA-1).
type Passwords struct {
	file    *livefile.File[*passwords]
	limiter *limiter

	hashesAtOnce int
	hashing      *semaphore.Weighted // of hashesAtOnce
	queued       atomic.Int64        // guesses that wait for it
}

// passwords are a table and the verdicts that rest upon it: those end with it,
// also those that are still being found.
type passwords struct {
	*table

	// secret keys the digests of credentials, so that memory holds no password
	// and no hash that could be tried against a list.
	secret   [32]byte
	verdicts *cache.Cache[[32]byte, bool]
}

// OpenPasswords reads the file, which must be there and sound.
func OpenPasswords(fsys vfs.FS, name string) (*Passwords, error) {
	f, err := livefile.Open(fsys, name, maxHtpasswdBytes, parsePasswords)
	n := max(1, runtime.GOMAXPROCS(0)/2)
	return &Passwords{file: f, limiter: newLimiter(), hashesAtOnce: n, hashing: semaphore.NewWeighted(int64(n))}, err
}

func parsePasswords(b []byte) (*passwords, error) {
	t, err := parseTable(b)
	if err != nil {
		return nil, err
	}
	p := &passwords{table: t, verdicts: cache.New[[32]byte, bool](cache.Options{MaxCost: maxVerdicts, MaxAge: verdictAge})}
	rand.Read(p.secret[:])
	return p, nil
}

// check reports whether a password is a user's. It is slow on purpose, unless
// the password was right before. Equal guesses at once are one; others wait for
// each other, see limiter.
func (p *Passwords) check(ctx context.Context, from netip.Addr, user, password string) (bool, error) {
	t, err := p.file.Get()
	if err != nil {
		return false, fmt.Errorf("passwords can't be checked: %w", err)
	}
	return t.verdicts.Get(ctx, t.digest(user, password), 0, func(ctx context.Context) (bool, int64, error) {
		return p.guess(ctx, t.table, from, user, password)
	})
}

// guess finds a verdict in turn. One that the password is wrong costs too much
// to be kept.
func (p *Passwords) guess(ctx context.Context, t *table, from netip.Addr, user, password string) (right bool, cost int64, err error) {
	if err := p.limiter.wait(ctx, from, user); err != nil {
		return false, 0, err
	}
	right, err = p.hash(ctx, t, user, password)
	var refused *Refusal
	if right || errors.As(err, &refused) {
		p.limiter.giveBack(from, user)
	}
	if right {
		return true, 1, nil
	}
	return false, math.MaxInt64, err
}

// hash compares a password when there is a place for it.
func (p *Passwords) hash(ctx context.Context, t *table, user, password string) (bool, error) {
	if err := p.enter(ctx); err != nil {
		return false, err
	}
	defer p.hashing.Release(1)
	if len(password) > maxPasswordBytes {
		t.matches(user, password[:maxPasswordBytes])
		return false, nil
	}
	return t.matches(user, password), nil
}

// enter waits for a place to hash a password. A queue that is full is a
// *Refusal.
func (p *Passwords) enter(ctx context.Context) error {
	if p.hashing.TryAcquire(1) {
		return nil
	}
	defer p.queued.Add(-1)
	if p.queued.Add(1) > maxHashQueue {
		return &Refusal{Status: http.StatusServiceUnavailable, Reason: "too many logins at once, try again later", RetryAfter: maxDelay}
	}
	return p.hashing.Acquire(ctx, 1)
}

func (p *passwords) digest(user, password string) [32]byte {
	h := blake3.New(32, p.secret[:])
	fmt.Fprintf(h, "%d:%s%s", len(user), user, password)
	return [32]byte(h.Sum(nil))
}
