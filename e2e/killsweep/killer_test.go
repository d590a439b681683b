//go:build linux && amd64

package killsweep

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A killer watches a process and kills it at one of its calls.
type killer struct {
	dirs []string // whose files matter, without symbolic links
	at   int      // which call to kill at, from 0
	torn bool     // a write is done by half before

	socket string
	l      *net.UnixListener
	done   chan struct{}

	mu    sync.Mutex
	count int    // calls seen; guarded by mu
	where string // the call that it was killed at; guarded by mu
	write bool   // that was a write of more than a byte; guarded by mu
	err   error  // guarded by mu
}

// newKiller returns a killer for the next process that is launched with
// k.command. It ends with that process.
func newKiller(t testing.TB, dirs []string, at int, torn bool) *killer {
	t.Helper()
	k := &killer{at: at, torn: torn, socket: filepath.Join(t.TempDir(), "s"), done: make(chan struct{})}
	for _, d := range dirs {
		d, err := filepath.EvalSymlinks(d)
		if err != nil {
			t.Fatal(err)
		}
		k.dirs = append(k.dirs, d)
	}
	var err error
	if k.l, err = net.ListenUnix("unix", &net.UnixAddr{Name: k.socket, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	go k.run()
	return k
}

// command is what the process has to be run by.
func (k *killer) command(t testing.TB) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, launchFlag, k.socket}
}

// wait returns once the process is gone: how many calls there were, and at
// which it was killed, if it was.
func (k *killer) wait(t testing.TB) (count int, where string) {
	t.Helper()
	<-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		t.Fatalf("watch the server: %v", k.err)
	}
	return k.count, k.where
}

func (k *killer) run() {
	defer close(k.done)
	listener, pidfd, err := k.accept()
	if err == nil {
		err = k.watch(listener, pidfd)
		err = errors.Join(err, unix.Close(listener), unix.Close(pidfd))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// accept receives the filter's listener, and a handle on the process.
func (k *killer) accept() (listener, pidfd int, err error) {
	defer k.l.Close()
	conn, err := k.l.AcceptUnix()
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	pid, err := peer(conn)
	if err != nil {
		return 0, 0, err
	}
	oob := make([]byte, 64)
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return 0, 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return 0, 0, fmt.Errorf("the launcher sent no listener: %v", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, 0, err
	}
	pidfd, err = unix.PidfdOpen(pid, 0)
	return fds[0], pidfd, err
}

// peer returns the pid at the other end.
func peer(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid, errors.Join(cerr, err)
}

// watch answers notifications until the process is gone or killed.
func (k *killer) watch(listener, pidfd int) error {
	for {
		fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			if fds[0].Revents&unix.POLLHUP != 0 {
				return nil
			}
			continue
		}
		n, err := receive(listener)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
			continue // the caller is gone
		}
		if err != nil {
			return err
		}
		if killed, err := k.meet(n, pidfd); killed || err != nil {
			// Whatever the other threads are at, they get no further.
			return errors.Join(err, unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0))
		}
		if err := goOn(listener, n); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
}

// meet counts a call, and tells whether the process ends here.
func (k *killer) meet(n notification, pidfd int) (kill bool, err error) {
	c := callOf(n.nr)
	if c == nil {
		return false, fmt.Errorf("system call %d was reported", n.nr)
	}
	path := k.path(c, n)
	if path == "" {
		return false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count++
	if k.count-1 != k.at {
		return false, nil
	}
	k.where = c.name + " " + path
	if k.write = c.data != 0 && n.arguments[c.data+1] > 1; k.write && k.torn {
		k.where = "half of " + k.where
		return true, writeHalf(c, n, pidfd, strings.Contains(path, "/etcd"))
	}
	return true, nil
}

// path returns the file that a call is about, relative to what they have in
// common, if it matters.
func (k *killer) path(c *call, n notification) string {
	proc := fmt.Sprintf("/proc/%d/", n.tid)
	var found []string
	for _, arg := range c.fds {
		if p, err := os.Readlink(fmt.Sprint(proc, "fd/", int32(n.arguments[arg]))); err == nil {
			found = append(found, p)
		}
	}
	for _, at := range c.paths {
		p := pathAt(proc, n.arguments[at[1]])
		if !filepath.IsAbs(p) {
			dir := proc + "cwd"
			if at[0] != atCwd && int32(n.arguments[at[0]]) != unix.AT_FDCWD {
				dir = fmt.Sprint(proc, "fd/", int32(n.arguments[at[0]]))
			}
			d, err := os.Readlink(dir)
			if err != nil {
				continue
			}
			p = filepath.Join(d, p)
		}
		found = append(found, p)
	}
	for _, p := range found {
		for _, d := range k.dirs {
			if p == d || strings.HasPrefix(p, d+"/") {
				return filepath.Base(d) + strings.TrimPrefix(p, d)
			}
		}
	}
	return ""
}

// pathAt reads a path from the memory of a process; empty if there is none.
func pathAt(proc string, address uint64) string {
	f, err := os.Open(proc + "mem")
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, unix.PathMax)
	n, _ := f.ReadAt(buf, int64(address)) // it may end before the buffer does
	end := bytes.IndexByte(buf[:n], 0)
	if end < 0 {
		return ""
	}
	return string(buf[:end])
}

// sector is the least that a disk writes at once.
const sector = 512

// writeHalf does the first half of a write, in the caller's place. etcd's log
// gets whole sectors: it counts on that, and a kill tears only between pages.
func writeHalf(c *call, n notification, pidfd int, etcds bool) (err error) {
	fd, err := unix.PidfdGetfd(pidfd, int(n.arguments[0]), 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	pos := int64(n.arguments[3])
	if c.nr == unix.SYS_WRITE {
		if pos, err = unix.Seek(fd, 0, unix.SEEK_CUR); err != nil {
			return err
		}
	}
	end := pos + int64(n.arguments[c.data+1])/2
	if etcds {
		end = max(pos, end/sector*sector)
	}
	data := make([]byte, end-pos)
	if err := readMemory(n.tid, data, n.arguments[c.data]); err != nil {
		return err
	}
	if c.nr == unix.SYS_WRITE {
		_, err = unix.Write(fd, data)
	} else {
		_, err = unix.Pwrite(fd, data, pos)
	}
	return err
}

func readMemory(tid uint32, data []byte, address uint64) error {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return err
	}
	_, err = mem.ReadAt(data, int64(address))
	return errors.Join(err, mem.Close())
}
