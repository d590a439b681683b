package store

import (
	"errors"
	"sync"
)

var errLookPanicked = errors.New("the state of the repository could not be read")

// A gate lets those who want the state of now share the looks at the disk. A
// reader is content with a look that began after it came, or with the state
// before what is being linked: the files are ahead of that, and nobody else may
// write to them meanwhile. But once other processes may see what is being linked,
// it waits for that: who has read it there must not find it gone here.
type gate struct {
	mu       sync.Mutex
	changed  sync.Cond // any of those below; its L is mu
	started  uint64    // looks begun; guarded by mu, as all below
	finished uint64    // looks done
	err      error     // of the last one done
	busy     bool      // a look is under way
	linking  bool      // the committer is between its look and its new state
	showing  bool      // and other processes may see a part of that
	linkers  int       // committers, those that wait too
}

func (g *gate) init() { g.changed.L = &g.mu }

// look runs f, which looks at the disk, unless somebody else's does.
func (g *gate) look(f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	want := g.started + 1
	for g.finished < want {
		switch {
		case g.linking && !g.showing:
			return nil
		case g.busy, g.linkers > 0: // committers go first
			g.changed.Wait()
		default:
			g.lookLocked(f)
		}
	}
	return g.err
}

// lookLocked runs f without mu.
func (g *gate) lookLocked(f func() error) {
	g.busy = true
	g.started++
	n := g.started
	g.mu.Unlock()
	err := errLookPanicked
	defer func() {
		g.mu.Lock()
		g.busy, g.finished, g.err = false, n, err
		g.changed.Broadcast()
	}()
	err = f()
}

// link runs f, which looks at the disk first and then calls begin: from there
// until it calls show, readers keep the state that they have, and from there
// until it returns they wait.
func (g *gate) link(f func(begin, show func()) error) error {
	g.mu.Lock()
	g.linkers++
	for g.busy {
		g.changed.Wait()
	}
	g.busy = true
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.linkers--
		g.busy, g.linking, g.showing = false, false, false
		g.changed.Broadcast()
	}()
	set := func(flag *bool) func() {
		return func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			*flag = true
			g.changed.Broadcast()
		}
	}
	return f(set(&g.linking), set(&g.showing))
}
