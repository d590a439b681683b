package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"

	"vcsd/internal/vfs"
)

// Options describe the repository that Views show.
type Options struct {
	// Root is the absolute path of the directory that holds .hg.
	Root string

	// Shared is the absolute path of the .hg directory that holds the store, if
	// that is not Root's own.
	Shared string

	// Dir is the absolute path of a directory for Views, which is the Pool's
	// alone. It is made when the first View is.
	Dir string

	// Idle is how many Views are kept for later. 0 means 4; a negative value
	// means none.
	Idle int
}

// A Pool makes Views of one repository.
type Pool struct {
	o    Options // constant after New
	fs   vfs.FS  // of the system, with absolute names
	lock string  // what the locks in Views name as their holder

	mu     sync.Mutex
	idle   []*View // guarded by mu
	next   int     // guarded by mu; number of the next View
	epoch  int     // guarded by mu; Views of an earlier one are not kept
	closed bool    // guarded by mu
}

// New returns a Pool without any View.
func New(o Options) *Pool {
	if o.Idle == 0 {
		o.Idle = 4
	}
	if o.Shared == "" {
		o.Shared = filepath.Join(o.Root, ".hg")
	}
	fsys := vfs.NewOS("")
	return &Pool{o: o, fs: fsys, lock: lockHolder(fsys)}
}

// A File is one that a View has as a copy of its own.
type File struct {
	// Path is relative to .hg, slash-separated, below store/ or "bookmarks".
	Path string

	// Keep is how many bytes of the real file the View starts with. 0 means a
	// new file or one that is replaced: the View then has none until it is made.
	Keep int64

	// Inline tells that the real file has to be an inline revlog. For other
	// files with names in ".i" it must not be one.
	Inline bool
}

// ErrMoved means that a file is no longer what the View was to start from: it
// is shorter, or the inline revlog was split. The push has to be decided on the
// present state.
var ErrMoved = errors.New("repository moved on since the push was decided")

// Acquire returns a View of the repository in which files, and no others, may
// be written. A file that the real repository extends while the View is in use
// and that must not be seen to grow, as the changelog's index, is named even if
// it isn't written.
//
// The caller then makes the writes of the push in the View's FS, and releases
// the View.
func (p *Pool) Acquire(files []File) (*View, error) {
	v, err := p.take()
	if err != nil {
		return nil, err
	}
	if err := v.prepare(files); err != nil {
		// What is wrong with it may be the View itself.
		return nil, errors.Join(fmt.Errorf("pending view: %w", err), v.remove())
	}
	return v, nil
}

// take returns a View that is kept, or a new one.
func (p *Pool) take() (*View, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("pending view: %w", fs.ErrClosed)
	}
	if n := len(p.idle); n > 0 {
		v := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return v, nil
	}
	p.next++
	return newView(p, strconv.Itoa(p.next), p.epoch), nil
}

// keeps reports whether there is room for a View that was used.
func (p *Pool) keeps(v *View) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keepsLocked(v)
}

func (p *Pool) keepsLocked(v *View) bool {
	return !p.closed && v.epoch == p.epoch && len(p.idle) < p.o.Idle
}

// put keeps a View if there is room for it.
func (p *Pool) put(v *View) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.keepsLocked(v) {
		return false
	}
	p.idle = append(p.idle, v)
	return true
}

// Reset forgets all that was kept. It is called when somebody rewrote files of
// the repository instead of extending them.
func (p *Pool) Reset() error {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.epoch++
	p.mu.Unlock()
	return removeAll(idle)
}

// Close removes the Views that are kept. Those in use are removed when they
// are released.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	return errors.Join(p.Reset(), p.fs.RemoveAll(p.linksDir()))
}

// linksDir holds one link for each name of a file in the store, of which those in
// Views are hard links: they cost an entry in a directory and no inode.
func (p *Pool) linksDir() string { return filepath.Join(p.o.Dir, "links") }

// link makes a symbolic link. One that only depends on its name is shared
// among all Views.
func (p *Pool) link(target, at string) error {
	name := filepath.Base(at)
	if target != realLink+"/"+name {
		return p.fs.Symlink(target, at)
	}
	shared := filepath.Join(p.linksDir(), name)
	err := p.fs.Link(shared, at)
	if errors.Is(err, fs.ErrNotExist) {
		if err = p.fs.Symlink(target, shared); err == nil || errors.Is(err, fs.ErrExist) {
			err = p.fs.Link(shared, at)
		}
	}
	// File systems bound the number of links to an inode, or know no links to
	// links.
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = p.fs.Symlink(target, at)
	}
	return err
}

func removeAll(views []*View) error {
	var errs []error
	for _, v := range views {
		errs = append(errs, v.remove())
	}
	return errors.Join(errs...)
}
