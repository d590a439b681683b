//go:build linux && amd64

package killsweep

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"vcsd/internal/hgtest"
)

// launchFlag makes the test binary a launcher: its arguments are a socket and a
// command line.
const launchFlag = "-launch-under-filter"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == launchFlag {
		err := launch(os.Args[2], os.Args[3:])
		fmt.Fprintln(os.Stderr, "launch:", err)
		os.Exit(1)
	}
	hgtest.Main(m)
}

// launch becomes the command, under the filter whose listener goes to the
// socket.
func launch(socket string, command []string) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	// The filter is this thread's, which is the one that remains.
	runtime.LockOSThread()
	listener, err := install(filter())
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(listener), nil); err != nil {
		return err
	}
	return syscall.Exec(command[0], command, os.Environ())
}

// install puts the thread under a filter and returns its listener. A thread
// whose call was reported waits for the answer whatever signals come, but for
// those that kill: none is reported twice.
func install(prog []unix.SockFilter) (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	f := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&f)))
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}
