package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vcsd/bench/kernel"
	"vcsd/internal/hgtest"
)

// A kind is what a server is.
type kind int

const (
	vcsd kind = iota
	hgServe
	hgweb
)

// A server is one of the processes that are compared, and the directory it
// serves.
type server struct {
	name string
	kind kind
	root string // repositories
	home string // all else it reads and writes
	exe  string // of vcsd

	url   string
	cmd   *exec.Cmd
	ended chan struct{}
	group *kernel.Group
	runs  int // starts so far
}

// workers is how many processes hgweb gets: what gunicorn's manual suggests for
// two cores; each has threadsPerWorker threads.
const (
	workers          = 5
	threadsPerWorker = 4
)

// wsgi has modules loaded at once: loaded on demand, threads see them half made,
// and requests fail.
const wsgi = `from mercurial import demandimport
demandimport.disable()
from mercurial.hgweb import hgweb
application = hgweb(%q.encode())
`

// newServer makes a server's directories; it isn't started. Settings are
// section.key=value.
func (b *bench) newServer(dir, name string, k kind, config ...string) (*server, error) {
	s := &server{name: name, kind: k, root: filepath.Join(dir, "repos"), home: filepath.Join(dir, "home"), exe: b.vcsd}
	settings := append([]string{"ui.username=server", "web.push_ssl=no", "web.allow-push=*"}, config...)
	var rc, web strings.Builder
	for _, c := range settings {
		name, value, _ := strings.Cut(c, "=")
		section, key, _ := strings.Cut(name, ".")
		fmt.Fprintf(&rc, "[%s]\n%s = %s\n", section, key, value)
		if section == "web" {
			fmt.Fprintf(&web, "%s = %s\n", key, value)
		}
	}
	files := map[string]string{
		"server.hgrc":  rc.String(),
		"web.conf":     "[paths]\n/ = " + s.root + "/*\n[web]\n" + web.String(),
		"benchwsgi.py": fmt.Sprintf(wsgi, filepath.Join(s.home, "web.conf")),
	}
	if err := errors.Join(os.MkdirAll(s.root, 0o755), os.MkdirAll(s.home, 0o755)); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.home, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *server) command() *exec.Cmd {
	conf := filepath.Join(s.home, "web.conf")
	serve := []string{"serve", "-a", "127.0.0.1", "-p", "0", "--web-conf", conf}
	var cmd *exec.Cmd
	switch s.kind {
	case vcsd:
		cmd = exec.Command(s.exe, serve...)
	case hgServe:
		cmd = exec.Command("hg", serve...)
	case hgweb:
		cmd = exec.Command("gunicorn", "-b", "127.0.0.1:0", "-k", "gthread", "-w", strconv.Itoa(workers),
			"--threads", strconv.Itoa(threadsPerWorker), "--timeout", "3600", "--graceful-timeout", "5",
			"--limit-request-fields", "32768", "--pythonpath", s.home, "benchwsgi:application")
	}
	cmd.Dir = s.home
	cmd.Env = hgtest.Env(s.home, filepath.Join(s.home, "server.hgrc"))
	return cmd
}

var listening = regexp.MustCompile(`(?i)listening at:? http://[^/ ]*:([0-9]+)`)

// startTime is how long a server may take to listen, on a busy machine too.
const startTime = 2 * time.Minute

// start starts the server and waits until it answers for the repository of that
// name.
func (s *server) start(ctx context.Context, repo string) error {
	s.runs++
	s.group = kernel.NewGroup(fmt.Sprintf("vcsd-bench-%d-%s-%d", os.Getpid(), filepath.Base(filepath.Dir(s.home)), s.runs))
	logName := filepath.Join(s.home, fmt.Sprintf("log%d", s.runs))
	log, err := os.Create(logName)
	if err != nil {
		return err
	}
	s.cmd = s.command()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := errors.Join(s.group.Start(s.cmd), log.Close()); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.ended = ended
	go func() {
		s.cmd.Wait() // how it ended tells its log
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := s.listens(ctx, logName); err != nil {
		return errors.Join(err, s.stop())
	}
	c := newClient(s.repo(repo))
	defer c.close()
	_, err = c.call(ctx, "capabilities", nil)
	return err
}

// listens waits until the log tells where the server listens.
func (s *server) listens(ctx context.Context, logName string) error {
	for {
		text, err := os.ReadFile(logName)
		if err != nil {
			return err
		}
		// gunicorn says so before its workers run; they take the connections
		// that wait.
		if m := listening.FindSubmatch(text); m != nil && bytes.HasSuffix(text, []byte("\n")) {
			s.url = "http://127.0.0.1:" + string(m[1])
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s ended at its start:\n%s", s.name, text)
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen:\n%s", s.name, text)
		case <-time.After(time.Millisecond):
		}
	}
}

// stop ends the server, kindly at first, and waits for it.
func (s *server) stop() error {
	if s.cmd == nil {
		return nil
	}
	pid := s.cmd.Process.Pid
	syscall.Kill(pid, syscall.SIGTERM) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		syscall.Kill(-pid, syscall.SIGKILL)
		<-s.ended
	}
	s.cmd = nil
	// Workers that outlive their master for a moment keep the control group.
	syscall.Kill(-pid, syscall.SIGKILL)
	for range 100 {
		if err := s.group.Close(); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// restart starts the server anew: with empty caches and a small heap.
func (s *server) restart(ctx context.Context, repo string) error {
	if err := s.stop(); err != nil {
		return err
	}
	return s.start(ctx, repo)
}

// repo is the URL of a repository.
func (s *server) repo(name string) string { return s.url + "/" + name }

// settled waits until the server is quiet, which is using less than a 25th of the
// time given, and returns the CPU time it had used when it became so. It gives up
// waiting after 200 such times.
func (s *server) settled(ctx context.Context, quiet time.Duration) (time.Duration, error) {
	last, err := s.group.CPU()
	for range 200 {
		if err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(quiet):
		}
		var now time.Duration
		if now, err = s.group.CPU(); err == nil && now-last < quiet/25 {
			return last, nil
		}
		last = now
	}
	return last, err
}
