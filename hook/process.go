package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drain is how long output is waited for that a hook's children may still
// write when the hook itself has ended.
const drain = 2 * time.Second

// maxVarBytes is how long one variable may be for Linux to start a process
// with it, terminating zero included.
const maxVarBytes = 128 << 10

// process runs the command of a hook until it and its output end. reason tells
// how it failed, if it did; err is that of ctx.
func (r *Runner) process(ctx context.Context, c *command, call Call, out io.Writer) (reason string, err error) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if r.opts.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, r.opts.Timeout)
	}
	defer cancel()
	cmd := exec.CommandContext(limited, "/bin/sh", "-c", c.text)
	cmd.Dir = r.root
	if call.Pending != "" {
		cmd.Dir = call.Pending
	}
	cmd.Env = r.environ(c, call, cmd.Dir)
	// The same writer for both makes one pipe, which keeps their order.
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = drain
	// A session of its own: its group can be killed as a whole, and what asks
	// for a password finds no terminal to wait at.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	closeInherited()
	if err := cmd.Start(); err != nil {
		return "could not be started: " + err.Error(), ctx.Err()
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil && err != nil:
		return "", ctx.Err()
	case limited.Err() != nil && err != nil:
		return fmt.Sprintf("was killed after %v", r.opts.Timeout), nil
	}
	return explain(cmd, err), nil
}

// closeInherited keeps files that this process inherited open from its parent
// to itself. Those that it opened are closed in children anyway.
var closeInherited = sync.OnceFunc(func() {
	// Kernels before 5.11 can't; a hook then has more open than it needs.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
})

// explain tells how a process ended, in hg's words; nothing if it succeeded.
// A child that holds the pipe open for longer than drain is no failure.
func explain(cmd *exec.Cmd, err error) string {
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return ""
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return fmt.Sprintf("killed by signal %d", status.Signal())
	case ok && status.ExitStatus() > 0:
		return fmt.Sprintf("exited with status %d", status.ExitStatus())
	}
	return "failed: " + err.Error()
}

// environ returns the whole environment of a hook.
func (r *Runner) environ(c *command, call Call, dir string) []string {
	env := slices.Clone(r.base)
	add := func(name, value string) {
		if len(name)+1+len(value)+1 <= maxVarBytes && !strings.ContainsAny(name, "=\x00") && strings.IndexByte(value, 0) < 0 {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(call.Vars)) {
		add("HG_"+name, call.Vars[name])
	}
	if call.Pending != "" {
		add("HG_PENDING", call.Pending)
	}
	add("HG_HOOKTYPE", string(call.Point))
	add("HG_HOOKNAME", c.name)
	add("HGPLAIN", map[plainMode]string{plainAlways: "1", plainInherit: r.plain}[c.plain])
	add("VCSD_ROOT", r.root)
	add("PWD", dir)
	return env
}

// dropped are variables of the server that are none of a hook's business: what
// its supervisor told it, and what would confuse a hook's hg.
var dropped = []string{
	"HG", "HGPLAIN", "PWD", "OLDPWD", "NOTIFY_SOCKET", "MAINPID", "MANAGERPID", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
	"CREDENTIALS_DIRECTORY", "GOTRACEBACK", "GODEBUG", "GORACE", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOCOVERDIR",
}

var droppedPrefixes = []string{"HG_", "LISTEN_", "WATCHDOG_", "VCSD_", "ETCD_"}

// sanitise returns what hooks inherit of an environment.
func sanitise(environ []string) []string {
	var env []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		drop := slices.Contains(dropped, name) || slices.ContainsFunc(droppedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if !drop {
			env = append(env, e)
		}
	}
	return env
}

// lookupEnv returns the value of a variable, empty if it isn't set.
func lookupEnv(environ []string, name string) string {
	for _, e := range slices.Backward(environ) {
		if n, v, ok := strings.Cut(e, "="); ok && n == name {
			return v
		}
	}
	return ""
}

// bounded passes on so many bytes and swallows the rest, so that a hook that
// prints more goes on.
type bounded struct {
	w    io.Writer
	left int64
	cut  bool
	err  error // of w
}

func (b *bounded) Write(p []byte) (int, error) {
	n := int64(len(p))
	if n > b.left {
		n, b.cut = b.left, true
	}
	if n > 0 && b.err == nil {
		_, b.err = b.w.Write(p[:n])
	}
	b.left -= n
	return len(p), nil
}
