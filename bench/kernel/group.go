package kernel

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Group accounts for one process and its descendants: by a control group of
// its own where that can be made, which counts in microseconds and forgets
// nobody; else by /proc, which counts in hundredths of a second.
type Group struct {
	dir string   // of the control group; empty without
	fd  *os.File // of dir, for starting in it

	pid int // set by Start
}

// NewGroup returns a group without a process. The name must be unique on the
// machine.
func NewGroup(name string) *Group {
	mount, own, err := cgroup2()
	if err != nil {
		return &Group{}
	}
	dir := filepath.Join(mount, own, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return &Group{}
	}
	fd, err := os.Open(dir)
	if err != nil {
		return &Group{}
	}
	g := &Group{dir: dir, fd: fd}
	if probe := exec.Command("true"); errors.Join(g.Start(probe), probe.Wait()) != nil {
		g.Close() // it may be left behind empty: then it does no harm
		return &Group{}
	}
	return g
}

// cgroup2 finds where the second version of control groups is mounted and which
// group this process is in.
func cgroup2() (mount, own string, err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 3 && f[2] == "cgroup2" {
			mount = f[1]
		}
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(groups)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	if mount == "" || own == "" {
		return "", "", errors.New("no control groups of version 2")
	}
	return mount, own, nil
}

// Source says what the figures of CPU rest on.
func (g *Group) Source() string {
	if g.dir == "" {
		return "/proc/PID/stat"
	}
	return "cgroup cpu.stat"
}

// Start starts a command as the group's process, and as the leader of a process
// group. If the control group can't be used, /proc is.
func (g *Group) Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if g.dir != "" {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.fd.Fd())
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	g.pid = cmd.Process.Pid
	return nil
}

// Close removes the group. It may be called again if it fails, because a
// process has not ended.
func (g *Group) Close() error {
	if g.dir == "" {
		return nil
	}
	if err := os.Remove(g.dir); err != nil {
		return err // a process runs still
	}
	return g.fd.Close()
}

// CPU returns the time that the processes have used so far, in user and in
// kernel mode, those that have ended included.
func (g *Group) CPU() (time.Duration, error) {
	if g.dir == "" {
		return g.procCPU()
	}
	b, err := os.ReadFile(filepath.Join(g.dir, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, fmt.Errorf("%s/cpu.stat has no usage_usec", g.dir)
}

// tick is the unit of /proc/PID/stat, the same on every Linux that Go runs on.
const tick = 10 * time.Millisecond

func (g *Group) procCPU() (sum time.Duration, err error) {
	pids, err := g.pids()
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) {
			continue // ended; its parent has its time
		} else if err != nil {
			return 0, err
		}
		// The name, in parentheses, may hold spaces.
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		for _, s := range f[11:15] { // utime stime cutime cstime
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, err
}

// pids lists the group's processes that run.
func (g *Group) pids() ([]int, error) {
	if g.dir == "" {
		return descendants(nil, g.pid)
	}
	b, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	return atois(string(b))
}

// descendants appends a process and those below it.
func descendants(pids []int, pid int) ([]int, error) {
	pids = append(pids, pid)
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // the thread ended
		}
		children, err := atois(string(b))
		if err != nil {
			return nil, err
		}
		for _, c := range children {
			if pids, err = descendants(pids, c); err != nil {
				return nil, err
			}
		}
	}
	return pids, nil
}

func atois(s string) (ns []int, err error) {
	for _, f := range strings.Fields(s) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		ns = append(ns, n)
	}
	return ns, nil
}
