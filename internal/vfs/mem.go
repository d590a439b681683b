package vfs

import (
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Mem is a file system in memory. It keeps what is durable apart from what can
// be read, and Crash shows what a power cut would leave.
//
// A file's bytes are durable after Sync of the file, its name after SyncDir of
// the directory; neither implies the other.
type Mem struct {
	dev uint64 // constant: tells it from others of this process

	mu       sync.Mutex // guards all below and every memNode
	root     *memNode
	lastIno  uint64
	locks    map[*memNode]*memLock
	pending  []dirOp // changes of directories that aren't durable, oldest first
	capacity int64   // bytes that fit; 0 means any number
	used     int64   // bytes that files hold or have claimed
}

var _ FS = (*Mem)(nil)

// memDevs counts the file systems.
var memDevs atomic.Uint64

// NewMem returns an empty file system.
func NewMem() *Mem {
	m := &Mem{dev: memDevs.Add(1), locks: make(map[*memNode]*memLock)}
	m.root = m.newNodeLocked(fs.ModeDir | 0o755)
	m.root.nlink = 1
	return m
}

// SetCapacity limits the bytes of all files together. 0 means no limit.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Kill releases all locks, as when the processes that hold them are killed.
// Files and names stay as they are, durable or not.
func (m *Mem) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.locks)
}

// memNode is a file, a directory or a symbolic link.
type memNode struct {
	dev    uint64
	ino    uint64
	mode   fs.FileMode
	nlink  int
	mtime  time.Time
	ctime  time.Time
	target string // of a symbolic link

	entries, durableEntries map[string]*memNode // of a directory

	data     []byte
	claimed  int64 // by Reserve
	durable  []byte
	dirty    map[int64]bool // pages written since the last Sync
	lost     map[int64]bool // dirty pages that a failed Sync gave up
	mappings []*memMapping
}

func (n *memNode) isDir() bool { return n.mode.IsDir() }

// holds is what the file takes of the capacity.
func (n *memNode) holds() int64 { return max(int64(len(n.data)), n.claimed) }

func (n *memNode) info() Info {
	in := Info{
		Size:       int64(len(n.data)),
		Mode:       n.mode,
		ModTime:    n.mtime,
		ChangeTime: n.ctime,
		Dev:        n.dev,
		Ino:        n.ino,
		Nlink:      uint64(n.nlink),
	}
	if n.mode&fs.ModeSymlink != 0 {
		in.Size = int64(len(n.target))
	}
	return in
}

func (m *Mem) newNodeLocked(mode fs.FileMode) *memNode {
	m.lastIno++
	now := time.Now()
	n := &memNode{dev: m.dev, ino: m.lastIno, mode: mode, mtime: now, ctime: now}
	if mode.IsDir() {
		n.entries = make(map[string]*memNode)
		n.durableEntries = make(map[string]*memNode)
	} else {
		n.dirty = make(map[int64]bool)
		n.lost = make(map[int64]bool)
	}
	return n
}

// place is where a name leads: an entry of a directory, which may be missing.
type place struct {
	dir  *memNode // nil for the root itself
	base string
	node *memNode // nil if nothing is there
}

const maxSymlinks = 40

// walkLocked resolves a name; with follow also a symbolic link at its end.
func (m *Mem) walkLocked(name string, follow bool) (place, error) {
	at := place{node: m.root}
	above := []*memNode{} // directories from the root to at
	todo := elements(name)
	for links := 0; len(todo) > 0; {
		base := todo[0]
		todo = todo[1:]
		if at.node == nil {
			return place{}, syscall.ENOENT
		}
		if !at.node.isDir() {
			return place{}, syscall.ENOTDIR
		}
		if base == ".." {
			if len(above) > 0 {
				at = place{node: above[len(above)-1]}
				above = above[:len(above)-1]
			}
			continue
		}
		next := place{dir: at.node, base: base, node: at.node.entries[base]}
		if n := next.node; n != nil && n.mode&fs.ModeSymlink != 0 && (follow || len(todo) > 0) {
			if links++; links > maxSymlinks {
				return place{}, syscall.ELOOP
			}
			todo = append(elements(n.target), todo...)
			if path.IsAbs(n.target) {
				at, above = place{node: m.root}, above[:0]
			}
			continue
		}
		above = append(above, at.node)
		at = next
	}
	return at, nil
}

// elements splits a name. Leading ".." are kept.
func elements(name string) []string {
	var list []string
	for e := range strings.SplitSeq(path.Clean(name), "/") {
		if e != "" && e != "." {
			list = append(list, e)
		}
	}
	return list
}

func pathErr(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// findLocked resolves a name that must lead to something.
func (m *Mem) findLocked(name string, follow bool) (place, error) {
	p, err := m.walkLocked(name, follow)
	if err == nil && p.node == nil {
		err = syscall.ENOENT
	}
	return p, err
}

func (m *Mem) open(op, name string, create, excl, write bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.openLocked(name, create, excl, write)
	if err != nil {
		return nil, pathErr(op, name, err)
	}
	return &memFile{m: m, node: n, name: name, writable: write}, nil
}

func (m *Mem) openLocked(name string, create, excl, write bool) (*memNode, error) {
	p, err := m.walkLocked(name, !excl)
	switch {
	case err != nil:
		return nil, err
	case p.node != nil && excl:
		return nil, syscall.EEXIST
	case p.node != nil && p.node.isDir() && write:
		return nil, syscall.EISDIR
	case p.node != nil:
		return p.node, nil
	case !create:
		return nil, syscall.ENOENT
	}
	n := m.newNodeLocked(0o644)
	m.changeLocked(set(p, n))
	return n, nil
}

// Open opens a file for reading.
func (m *Mem) Open(name string) (File, error) { return m.open("open", name, false, false, false) }

// OpenWrite opens or makes a file for reading and writing.
func (m *Mem) OpenWrite(name string) (File, error) { return m.open("open", name, true, false, true) }

// Create makes a new file.
func (m *Mem) Create(name string) (File, error) { return m.open("create", name, true, true, true) }

// Stat describes what name leads to.
func (m *Mem) Stat(name string) (Info, error) { return m.stat("stat", name, true) }

// Lstat is Stat without following a symbolic link at the end.
func (m *Mem) Lstat(name string) (Info, error) { return m.stat("lstat", name, false) }

func (m *Mem) stat(op, name string, follow bool) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.findLocked(name, follow)
	if err != nil {
		return Info{}, pathErr(op, name, err)
	}
	return p.node.info(), nil
}

// ReadDir lists a directory.
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.dirLocked(name)
	if err != nil {
		return nil, pathErr("open", name, err)
	}
	list := make([]fs.DirEntry, 0, len(n.entries))
	for base, e := range n.entries {
		list = append(list, fs.FileInfoToDirEntry(memInfo{base, e.info()}))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

func (m *Mem) dirLocked(name string) (*memNode, error) {
	p, err := m.findLocked(name, true)
	if err != nil {
		return nil, err
	}
	if !p.node.isDir() {
		return nil, syscall.ENOTDIR
	}
	return p.node, nil
}

// MkdirAll makes a directory and those above it.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := elements(name)
	for i := range list {
		p, err := m.walkLocked(strings.Join(list[:i+1], "/"), true)
		if err == nil && p.node != nil && !p.node.isDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return pathErr("mkdir", name, err)
		}
		if p.node == nil {
			m.changeLocked(set(p, m.newNodeLocked(fs.ModeDir|0o755)))
		}
	}
	return nil
}

// Rename gives a file or directory another name, in one step.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.renameLocked(oldName, newName); err != nil {
		return linkErr("rename", oldName, newName, err)
	}
	return nil
}

func (m *Mem) renameLocked(oldName, newName string) error {
	from, err := m.findLocked(oldName, false)
	if err != nil {
		return err
	}
	to, err := m.walkLocked(newName, false)
	if err != nil {
		return err
	}
	if from.dir == nil || to.dir == nil {
		return syscall.EBUSY
	}
	if to.node == from.node {
		return nil
	}
	if to.node != nil {
		if err := mayReplace(from.node, to.node); err != nil {
			return err
		}
	}
	m.changeLocked(unset(from), set(to, from.node))
	return nil
}

func mayReplace(from, to *memNode) error {
	switch {
	case to.isDir() && !from.isDir():
		return syscall.EISDIR
	case !to.isDir() && from.isDir():
		return syscall.ENOTDIR
	case len(to.entries) > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}

func linkErr(op, oldName, newName string, err error) error {
	return &linkError{Op: op, Old: oldName, New: newName, Err: err}
}

// Link gives a file a second name.
func (m *Mem) Link(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, err := m.findLocked(oldName, false)
	if err != nil {
		return linkErr("link", oldName, newName, err)
	}
	to, err := m.walkLocked(newName, false)
	switch {
	case err != nil:
	case from.node.isDir():
		err = syscall.EPERM
	case to.node != nil:
		err = syscall.EEXIST
	}
	if err != nil {
		return linkErr("link", oldName, newName, err)
	}
	m.changeLocked(set(to, from.node))
	return nil
}

// Symlink makes a symbolic link.
func (m *Mem) Symlink(target, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.walkLocked(name, false)
	if err == nil && p.node != nil {
		err = syscall.EEXIST
	}
	if err != nil {
		return linkErr("symlink", target, name, err)
	}
	n := m.newNodeLocked(fs.ModeSymlink | 0o777)
	n.target = target
	m.changeLocked(set(p, n))
	return nil
}

// Readlink returns where a symbolic link leads.
func (m *Mem) Readlink(name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.findLocked(name, false)
	if err == nil && p.node.mode&fs.ModeSymlink == 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", pathErr("readlink", name, err)
	}
	return p.node.target, nil
}

// Remove removes a name; a directory must be empty.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.findLocked(name, false)
	switch {
	case err != nil:
	case p.dir == nil:
		err = syscall.EBUSY
	case len(p.node.entries) > 0:
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return pathErr("remove", name, err)
	}
	m.changeLocked(unset(p))
	return nil
}

// RemoveAll removes a name and all below it.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.walkLocked(name, false)
	if err == syscall.ENOENT || err == nil && p.node == nil {
		return nil
	}
	if err == nil && p.dir == nil {
		err = syscall.EBUSY
	}
	if err != nil {
		return pathErr("unlinkat", name, err)
	}
	m.removeTreeLocked(p)
	return nil
}

func (m *Mem) removeTreeLocked(p place) {
	for base, e := range p.node.entries {
		m.removeTreeLocked(place{dir: p.node, base: base, node: e})
	}
	m.changeLocked(unset(p))
}

// Chmod sets a file's permissions. They are durable at once.
func (m *Mem) Chmod(name string, mode fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.findLocked(name, true)
	if err != nil {
		return pathErr("chmod", name, err)
	}
	const settable = fs.ModePerm | fs.ModeSetgid | fs.ModeSetuid | fs.ModeSticky
	p.node.mode = p.node.mode&^settable | mode&settable
	p.node.ctime = time.Now()
	return nil
}

// memLock is a lock that is held.
type memLock struct {
	m    *Mem
	node *memNode
}

// Lock takes an exclusive lock on a file.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.openLocked(name, true, false, true)
	if err == nil && m.locks[n] != nil {
		err = ErrLocked
	}
	if err != nil {
		return nil, pathErr("lock", name, err)
	}
	l := &memLock{m, n}
	m.locks[n] = l
	return l, nil
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	// Kill may have taken it, and given it to another.
	if l.m.locks[l.node] == l {
		delete(l.m.locks, l.node)
	}
	return nil
}

// Free returns how much of the capacity is left.
func (m *Mem) Free(name string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.findLocked(name, true); err != nil {
		return 0, pathErr("statfs", name, err)
	}
	if m.capacity == 0 {
		return math.MaxInt64, nil
	}
	return max(0, m.capacity-m.used), nil
}
