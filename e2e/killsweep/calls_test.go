//go:build linux && amd64

package killsweep

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A call is a system call that may change files, and which of its arguments
// name them.
type call struct {
	nr    uint32
	name  string
	fds   []int    // arguments that are open files
	paths [][2]int // arguments that are a directory, atCwd for none, and a path
	data  int      // argument that is the buffer of a write, its length follows; 0 for none
}

// atCwd stands for the working directory, in calls without a directory.
const atCwd = -1

func onFD(nr uint32, name string, fds ...int) call { return call{nr: nr, name: name, fds: fds} }

func onPath(nr uint32, name string, paths ...[2]int) call {
	return call{nr: nr, name: name, paths: paths}
}

func writing(nr uint32, name string) call {
	return call{nr: nr, name: name, fds: []int{0}, data: 1}
}

// calls are those that are reported. A mapped file is none of vcsd's ways to
// write.
var calls = []call{
	writing(unix.SYS_WRITE, "write"),
	writing(unix.SYS_PWRITE64, "pwrite64"),
	onFD(unix.SYS_WRITEV, "writev", 0),
	onFD(unix.SYS_PWRITEV, "pwritev", 0),
	onFD(unix.SYS_PWRITEV2, "pwritev2", 0),
	onFD(unix.SYS_SENDFILE, "sendfile", 0),
	onFD(unix.SYS_SPLICE, "splice", 2),
	onFD(unix.SYS_COPY_FILE_RANGE, "copy_file_range", 2),
	onFD(unix.SYS_FSYNC, "fsync", 0),
	onFD(unix.SYS_FDATASYNC, "fdatasync", 0),
	onFD(unix.SYS_SYNC_FILE_RANGE, "sync_file_range", 0),
	onFD(unix.SYS_FTRUNCATE, "ftruncate", 0),
	onFD(unix.SYS_FALLOCATE, "fallocate", 0),
	onFD(unix.SYS_FCHMOD, "fchmod", 0),
	onPath(unix.SYS_OPENAT, "openat", [2]int{0, 1}),
	onPath(unix.SYS_OPENAT2, "openat2", [2]int{0, 1}),
	onPath(unix.SYS_OPEN, "open", [2]int{atCwd, 0}),
	onPath(unix.SYS_CREAT, "creat", [2]int{atCwd, 0}),
	onPath(unix.SYS_TRUNCATE, "truncate", [2]int{atCwd, 0}),
	onPath(unix.SYS_CHMOD, "chmod", [2]int{atCwd, 0}),
	onPath(unix.SYS_FCHMODAT, "fchmodat", [2]int{0, 1}),
	onPath(unix.SYS_UTIMENSAT, "utimensat", [2]int{0, 1}),
	onPath(unix.SYS_MKDIR, "mkdir", [2]int{atCwd, 0}),
	onPath(unix.SYS_MKDIRAT, "mkdirat", [2]int{0, 1}),
	onPath(unix.SYS_RMDIR, "rmdir", [2]int{atCwd, 0}),
	onPath(unix.SYS_UNLINK, "unlink", [2]int{atCwd, 0}),
	onPath(unix.SYS_UNLINKAT, "unlinkat", [2]int{0, 1}),
	onPath(unix.SYS_SYMLINK, "symlink", [2]int{atCwd, 1}),
	onPath(unix.SYS_SYMLINKAT, "symlinkat", [2]int{1, 2}),
	onPath(unix.SYS_LINK, "link", [2]int{atCwd, 1}),
	onPath(unix.SYS_LINKAT, "linkat", [2]int{2, 3}),
	onPath(unix.SYS_RENAME, "rename", [2]int{atCwd, 1}),
	onPath(unix.SYS_RENAMEAT, "renameat", [2]int{2, 3}),
	onPath(unix.SYS_RENAMEAT2, "renameat2", [2]int{2, 3}),
}

// changesByOpen are the flags without which openat changes nothing.
const changesByOpen = unix.O_CREAT | unix.O_TRUNC | unix.O_WRONLY | unix.O_RDWR

// filter is the program that the kernel runs at each system call. The offsets
// are those of struct seccomp_data (linux/seccomp.h).
func filter() []unix.SockFilter {
	const (
		load, equal, anyBit, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
			unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		offNr, offArch, offArg2 = 0, 4, 16 + 2*8
	)
	n := len(calls)
	prog := []unix.SockFilter{
		{Code: load, K: offArch},
		{Code: equal, K: unix.AUDIT_ARCH_X86_64, Jf: uint8(n + 1)}, // to allow
		{Code: load, K: offNr},
	}
	for i, c := range calls {
		to := n - i // to report, which stands after allow
		if c.nr == unix.SYS_OPENAT {
			to = n - i + 1 // to the look at its flags
		}
		prog = append(prog, unix.SockFilter{Code: equal, K: c.nr, Jt: uint8(to)})
	}
	return append(prog,
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF},
		unix.SockFilter{Code: load, K: offArg2},
		unix.SockFilter{Code: anyBit, K: changesByOpen, Jt: 0, Jf: 1},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	)
}

// callOf returns the call with a number.
func callOf(nr int32) *call {
	for i := range calls {
		if calls[i].nr == uint32(nr) {
			return &calls[i]
		}
	}
	return nil
}

// A notification is struct seccomp_notif with the seccomp_data in it.
type notification struct {
	id        uint64
	tid       uint32
	flags     uint32
	nr        int32
	arch      uint32
	ip        uint64
	arguments [6]uint64
}

// A response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// The kernel's sizes, which its requests name.
var (
	_ [80]byte = [unsafe.Sizeof(notification{})]byte{}
	_ [24]byte = [unsafe.Sizeof(response{})]byte{}
)

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// receive takes the next notification. It is all zero before (the kernel wants
// that).
func receive(listener int) (n notification, err error) {
	return n, ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
}

// goOn lets the call happen.
func goOn(listener int, n notification) error {
	const flagContinue = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	r := response{id: n.id, flags: flagContinue}
	return ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}
