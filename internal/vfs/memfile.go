package vfs

import (
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// linkError is the error of operations on two names.
type linkError = os.LinkError

// memInfo is an Info with a name, for directory listings.
type memInfo struct {
	name string
	in   Info
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.in.Size }
func (i memInfo) Mode() fs.FileMode  { return i.in.Mode }
func (i memInfo) ModTime() time.Time { return i.in.ModTime }
func (i memInfo) IsDir() bool        { return i.in.Mode.IsDir() }
func (i memInfo) Sys() any           { return nil }

// memFile is an open file of a Mem.
type memFile struct {
	m        *Mem
	node     *memNode
	name     string
	writable bool
	pos      int64 // guarded by m.mu
	closed   bool  // guarded by m.mu
}

// pageSize is the unit in which bytes become durable; sectorSize the one in
// which a page may be torn.
const (
	pageSize   = 4096
	sectorSize = 512
)

// enter locks the file system for an operation on the file.
func (f *memFile) enter(op string, write bool) (leave func(), err error) {
	f.m.mu.Lock()
	switch {
	case f.closed:
		err = fs.ErrClosed
	case f.node.isDir():
		err = syscall.EISDIR
	case write && !f.writable:
		err = syscall.EBADF
	}
	if err != nil {
		f.m.mu.Unlock()
		return nil, pathErr(op, f.name, err)
	}
	return f.m.mu.Unlock, nil
}

func (f *memFile) Read(b []byte) (int, error) {
	leave, err := f.enter("read", false)
	if err != nil {
		return 0, err
	}
	defer leave()
	n, err := f.node.readAt(b, f.pos)
	f.pos += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	leave, err := f.enter("read", false)
	if err != nil {
		return 0, err
	}
	defer leave()
	if off < 0 {
		return 0, pathErr("readat", f.name, syscall.EINVAL)
	}
	return f.node.readAt(b, off)
}

func (n *memNode) readAt(b []byte, off int64) (int, error) {
	if off >= int64(len(n.data)) {
		if len(b) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	c := copy(b, n.data[off:])
	if c < len(b) {
		return c, io.EOF
	}
	return c, nil
}

func (f *memFile) Write(b []byte) (int, error) {
	leave, err := f.enter("write", true)
	if err != nil {
		return 0, err
	}
	defer leave()
	n, err := f.writeLocked(b, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	leave, err := f.enter("write", true)
	if err != nil {
		return 0, err
	}
	defer leave()
	if off < 0 {
		return 0, pathErr("writeat", f.name, syscall.EINVAL)
	}
	return f.writeLocked(b, off)
}

func (f *memFile) writeLocked(b []byte, off int64) (int, error) {
	n := f.node
	end := off + int64(len(b))
	if err := f.m.growLocked(n, end, n.claimed); err != nil {
		return 0, pathErr("write", f.name, err)
	}
	if len(b) == 0 {
		return 0, nil
	}
	if end > int64(len(n.data)) {
		// A gap reads as zeros and is as little durable as what follows it.
		n.touchPages(int64(len(n.data)), off)
		n.data = append(n.data, make([]byte, end-int64(len(n.data)))...)
		for _, m := range n.mappings {
			m.grow(end)
		}
	}
	copy(n.data[off:], b)
	for _, m := range n.mappings {
		m.write(b, off)
	}
	n.touchPages(off, end)
	n.mtime = time.Now()
	n.ctime = n.mtime
	return len(b), nil
}

func (n *memNode) touchPages(from, to int64) {
	for p := from / pageSize; p*pageSize < to; p++ {
		n.dirty[p] = true
		delete(n.lost, p)
	}
}

// growLocked accounts for a file that comes to hold size bytes or claims them.
func (m *Mem) growLocked(n *memNode, size, claimed int64) error {
	more := max(size, claimed, n.holds()) - n.holds()
	if n.nlink == 0 {
		more = 0 // removed, and open still
	}
	if m.capacity > 0 && more > 0 && m.used+more > m.capacity {
		return syscall.ENOSPC
	}
	m.used += more
	n.claimed = max(n.claimed, claimed)
	return nil
}

func (f *memFile) Seek(off int64, whence int) (int64, error) {
	leave, err := f.enter("seek", false)
	if err != nil {
		return 0, err
	}
	defer leave()
	switch whence {
	case io.SeekCurrent:
		off += f.pos
	case io.SeekEnd:
		off += int64(len(f.node.data))
	}
	if off < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, pathErr("seek", f.name, syscall.EINVAL)
	}
	f.pos = off
	return off, nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return pathErr("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	return nil
}

func (f *memFile) Stat() (Info, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return Info{}, pathErr("stat", f.name, fs.ErrClosed)
	}
	return f.node.info(), nil
}

func (f *memFile) Sync() error {
	leave, err := f.enter("sync", false)
	if err != nil {
		return err
	}
	defer leave()
	n := f.node
	if grown := len(n.data) - len(n.durable); grown > 0 {
		n.durable = append(n.durable, make([]byte, grown)...)
	}
	for p := range n.dirty {
		if !n.lost[p] {
			at := min(p*pageSize, int64(len(n.data)))
			copy(n.durable[at:], n.data[at:min(at+pageSize, int64(len(n.data)))])
			delete(n.dirty, p)
		}
	}
	return nil
}

// FailSync does what a failed sync of Linux does: the pages that were to be
// written count as clean from then on, so that a second sync succeeds and
// saves nothing. It is called by the fault injection.
func (f *memFile) FailSync() {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	for p := range f.node.dirty {
		f.node.lost[p] = true
	}
}

func (f *memFile) Reserve(size int64) error {
	leave, err := f.enter("fallocate", true)
	if err != nil {
		return err
	}
	defer leave()
	return pathErr("fallocate", f.name, f.m.growLocked(f.node, 0, size))
}

func (f *memFile) Map(size int64) (Mapping, error) {
	leave, err := f.enter("mmap", false)
	if err != nil {
		return nil, err
	}
	defer leave()
	m := &memMapping{fs: f.m, node: f.node}
	if size > 0 {
		b, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			return nil, pathErr("mmap", f.name, err)
		}
		m.b = b
	}
	m.grow(int64(len(f.node.data)))
	m.write(f.node.data, 0)
	f.node.mappings = append(f.node.mappings, m)
	return m, nil
}

// memMapping is memory of its own that writes to the file are repeated in.
// Pages beyond the end of the file can't be touched, as in a real mapping.
type memMapping struct {
	fs   *Mem
	node *memNode
	b    []byte
	open int64 // bytes that may be touched, whole pages; guarded by fs.mu
}

// grow lets the pages up to size be touched.
func (m *memMapping) grow(size int64) {
	want := min((size+pageSize-1)/pageSize*pageSize, int64(len(m.b)))
	if want <= m.open {
		return
	}
	if err := unix.Mprotect(m.b[m.open:want], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		panic("vfs: mprotect: " + err.Error())
	}
	m.open = want
}

func (m *memMapping) write(b []byte, off int64) {
	if off < int64(len(m.b)) {
		copy(m.b[off:], b)
	}
}

func (m *memMapping) Bytes() []byte { return m.b }

func (m *memMapping) Close() error {
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	for i, other := range m.node.mappings {
		if other == m {
			m.node.mappings = append(m.node.mappings[:i:i], m.node.mappings[i+1:]...)
			break
		}
	}
	if m.b == nil {
		return nil
	}
	b := m.b
	m.b = nil
	return unix.Munmap(b)
}
