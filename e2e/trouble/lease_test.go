package trouble

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"vcsd/internal/hgtest"
)

// once returns a meet that calls act at the first message that is asked for.
func once(is func(frame) bool, act func() verdict) func(frame) verdict {
	var one sync.Once
	return func(f frame) verdict {
		v := pass
		if is(f) {
			one.Do(func() { v = act() })
		}
		return v
	}
}

// mustEnd waits for a push, which must be taken.
func (b *bed) mustEnd(what string, p *push, done <-chan error) {
	b.t.Helper()
	if err := <-done; err != nil || !p.ok {
		b.t.Fatalf("%s: %v, %q", what, err, p.told)
	}
	b.finish(what, p)
}

// expireNow ends the sessions, of which there must be one.
func (b *bed) expireNow(what string) {
	b.t.Helper()
	if n := b.etcd.expire(); n != 1 {
		b.t.Errorf("%s: %d sessions, want one", what, n)
	}
	b.tally.fault()
}

// leases ends the session of a server while a push waits for its branch, just
// before its transaction, and just after it.
func leases(t *testing.T, a *tally) {
	b := newBed(t, a, newCluster(t, 1))
	b.mustPush("before")

	// Another node has the branch.
	lock := "vcsd/1/r/" + b.id() + "/l/two"
	if _, err := b.etcd.client.Put(t.Context(), lock, "another.1"); err != nil {
		t.Fatal(err)
	}
	asked := make(chan bool, 1)
	b.proxy.setMeet(once(func(f frame) bool { return f.isRequest("/l/two") }, func() verdict {
		asked <- true
		return pass
	}))
	p, done := b.start()
	<-asked
	b.expireNow("while a push waits")
	if _, err := b.etcd.client.Delete(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	b.mustEnd("session ended while a push waits", p, done)

	b.proxy.setMeet(once(frame.isPublish, func() verdict {
		b.expireNow("before the transaction")
		return pass
	}))
	p, done = b.start()
	b.mustEnd("session ended just before the transaction", p, done)

	for _, lost := range []verdict{pass, cut} {
		published := make(chan bool, 1)
		b.proxy.setMeet(func(f frame) verdict {
			if f.isPublish() {
				published <- true
				return pass
			}
			select {
			case <-published:
			default:
				return pass
			}
			if f.toEtcd { // a heartbeat, say
				published <- true
				return pass
			}
			b.expireNow("after the transaction")
			b.proxy.setMeet(nil)
			return lost
		})
		p, done = b.start()
		b.mustEnd("session ended just after the transaction", p, done)
	}
	b.mustPush("after")
	b.verify()
}

// hooks ends the session while a hook of a push runs, and keeps etcd away from
// the end of the hook on.
func hooks(t *testing.T, a *tally) {
	flags := hgtest.New(t) // a directory
	started, goOn := filepath.Join(flags.Dir, "started"), filepath.Join(flags.Dir, "go-on")
	b := newBed(t, a, newCluster(t, 1),
		"hooks.pretxnchangegroup.wait=echo >"+started+"; while [ ! -e "+goOn+" ]; do sleep 0.02; done")
	p, done := b.start()
	until(t, "the hook runs", func() bool {
		_, err := os.Stat(started)
		return err == nil
	})
	b.expireNow("while a hook runs")
	flags.Write("go-on", "")
	b.mustEnd("session ended while a hook runs", p, done)
	b.mustPush("after")
	b.verify()
}

// compacted ends the watch of a push that waits for its branch, and compacts
// all that it could be resumed from.
func compacted(t *testing.T, a *tally) {
	b := newBed(t, a, newCluster(t, 1))
	b.mustPush("before")
	lock := "vcsd/1/r/" + b.id() + "/l/two"
	put, err := b.etcd.client.Put(t.Context(), lock, "another.1")
	if err != nil {
		t.Fatal(err)
	}
	watched := make(chan bool, 1)
	b.proxy.setMeet(once(func(f frame) bool { return f.isRequest("/l/two") }, func() verdict {
		watched <- true
		return pass
	}))
	p, done := b.start()
	<-watched
	b.proxy.setRefuse(true)
	b.proxy.cut()
	a.fault()
	if _, err := b.etcd.client.Delete(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	for range 3 { // later changes of what is watched, whose history goes
		if put, err = b.etcd.client.Put(t.Context(), lock+"x", "another.1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.etcd.client.Compact(t.Context(), put.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	a.fault()
	b.proxy.setRefuse(false)
	b.mustEnd("watch resumed after a compaction", p, done)
	b.mustPush("after")
	b.verify()
}
