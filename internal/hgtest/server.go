package hgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ServerOptions say how to serve. Only Root must be set.
type ServerOptions struct {
	// Root is the directory whose repositories are served, each at its path
	// below it.
	Root string
	// Stock serves with hg serve instead of vcsd.
	Stock bool
	// Hgweb serves with stock hgweb behind a web server that knows its users:
	// see User. It needs no Stock.
	Hgweb bool
	// Config holds settings as section.key=value. web.push_ssl is off and
	// web.allow-push is * unless they say otherwise.
	Config []string
	// Args are further arguments of serve.
	Args []string
	// Env is further environment, each KEY=value.
	Env []string
	// ByRoot serves with vcsd's flag --root, and by that without a file for
	// --web-conf. Stock hg doesn't have it.
	ByRoot bool
	// MaxFileBytes limits the size of the files that the server may write; 0
	// is no limit.
	MaxFileBytes int64
	// Files are handed over as file descriptors from 3 on.
	Files []*os.File
	// Wrap is a program with arguments that starts the server's command line,
	// which is appended to it, in its own place.
	Wrap []string
}

// A Server is a process that serves repositories on a port of 127.0.0.1.
type Server struct {
	// URL is where it listens, without a slash at the end.
	URL string
	// Root is the directory it serves.
	Root string
	// Stock tells stock hg from vcsd.
	Stock bool

	t    testing.TB
	o    ServerOptions
	home string // outlives a restart: the state of an embedded etcd is below it

	mu    sync.Mutex
	cmd   *exec.Cmd     // guarded by mu; nil when not running
	ended chan struct{} // closed when cmd was waited for
	err   error         // of Wait; valid when ended is closed
	log   strings.Builder
}

// UseStock reports whether $VCSD_TEST_SERVER asks for stock hg where a test
// would start vcsd, which proves the test itself.
func UseStock() bool { return os.Getenv("VCSD_TEST_SERVER") == "stock" }

// Serve starts a server and waits until it listens. It ends with the test.
func Serve(t testing.TB, o ServerOptions) *Server {
	t.Helper()
	s := NewServer(t, o)
	s.Start()
	return s
}

// NewServer returns a server that was not started yet.
func NewServer(t testing.TB, o ServerOptions) *Server {
	t.Helper()
	o.Stock = o.Stock || o.Hgweb || UseStock()
	s := &Server{t: t, o: o, Root: o.Root, Stock: o.Stock, home: t.TempDir()}
	t.Cleanup(func() {
		s.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("server at %s said:\n%s", s.URL, s.Log())
		}
	})
	return s
}

// startTime bounds the start of a server, tail included: a busy machine
// may need long, and only a hanging server reaches it.
const startTime = 2 * time.Minute

var listening = regexp.MustCompile(`listening at (https?)://[^/]*:([0-9]+)(/\S*)?`)

// Start starts a server that was stopped or killed, on a port of its own.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.TryStart(); err != nil {
		s.t.Fatal(err)
	}
}

// TryStart is Start for a server that may end before it listens, which is an
// error then.
func (s *Server) TryStart() error {
	s.t.Helper()
	out, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.command()
	cmd.Stdout, cmd.Stderr = w, w
	// Hooks are children of the server; they end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	if err := errors.Join(err, w.Close()); err != nil {
		s.t.Fatal(err)
	}
	ended, found := make(chan struct{}), make(chan string, 1)
	s.mu.Lock()
	s.cmd, s.ended = cmd, ended
	s.mu.Unlock()
	go s.collect(out, found)
	go func() {
		s.err = cmd.Wait()
		close(ended)
	}()
	select {
	case url := <-found:
		s.URL = url
		return nil
	case <-ended:
		return fmt.Errorf("server ended at its start: %v\n%s", s.err, s.Log())
	case <-time.After(startTime):
		return fmt.Errorf("server does not listen\n%s", s.Log())
	}
}

// collect keeps what the server prints and sends its URL once.
func (s *Server) collect(out io.ReadCloser, found chan<- string) {
	defer out.Close()
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		s.mu.Lock()
		s.log.WriteString(line)
		s.mu.Unlock()
		if m := listening.FindStringSubmatch(line); m != nil {
			select {
			case found <- m[1] + "://127.0.0.1:" + m[2] + strings.TrimSuffix(m[3], "/"):
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

// command returns the server's command line. Both servers get the same files.
func (s *Server) command() *exec.Cmd {
	s.t.Helper()
	rc := filepath.Join(s.home, "server.hgrc")
	settings := append([]string{"ui.username=server", "web.push_ssl=no", "web.allow-push=*"}, s.o.Config...)
	writeFile(s.t, rc, hgrcOf(s.t, settings))
	name, args := "", []string{"serve", "-a", "127.0.0.1", "-p", "0"}
	if s.Stock {
		name = hgPath(s.t)
	} else {
		name = Vcsd(s.t)
	}
	if s.o.ByRoot && !s.Stock {
		args = append(args, "--root", s.Root)
	} else {
		conf := filepath.Join(s.home, "web.conf")
		writeFile(s.t, conf, "[paths]\n/ = "+s.Root+"/**\n[web]\nrefreshinterval = -1\n"+webSection(settings))
		args = append(args, "--web-conf", conf)
	}
	if s.o.Hgweb {
		name, args = pythonPath(s.t), []string{s.hgwebScript(), args[len(args)-1]}
	}
	args = append(args, s.o.Args...)
	if s.o.MaxFileBytes > 0 {
		name, args = "prlimit", append([]string{"--fsize=" + strconv.FormatInt(s.o.MaxFileBytes, 10), name}, args...)
	}
	if w := s.o.Wrap; len(w) > 0 {
		name, args = w[0], slices.Concat(w[1:], []string{name}, args)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = s.Root
	cmd.Env = append(Env(s.home, rc), s.o.Env...)
	cmd.ExtraFiles = s.o.Files
	return cmd
}

// webSection repeats the settings of [web]: hgweb for many repositories reads
// some of them only from its own file.
func webSection(settings []string) string {
	var b strings.Builder
	for _, s := range settings {
		if key, value, ok := strings.Cut(s, "="); ok && strings.HasPrefix(key, "web.") {
			b.WriteString(strings.TrimPrefix(key, "web.") + " = " + value + "\n")
		}
	}
	return b.String()
}

// Log returns what the server has printed so far.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// Stop ends the server with SIGTERM and waits for it. vcsd must exit with
// status 0.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.end(syscall.SIGTERM); err != nil && !s.Stock {
		s.t.Errorf("server ended on SIGTERM with %v\n%s", err, s.Log())
	}
}

// End ends the server with SIGTERM, or waits for it if it has ended by itself.
func (s *Server) End() { s.end(syscall.SIGTERM) }

// Kill ends the server and its hooks at once, as kill -9 does, and waits.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Signal sends a signal to the server.
func (s *Server) Signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return os.ErrProcessDone
	}
	return s.cmd.Process.Signal(sig)
}

// Wait waits for a server to end by itself, and returns how it did.
func (s *Server) Wait() error {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	<-ended
	return s.err
}

// PID returns the process id of the running server.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// end sends sig to the server's process group and waits for the server.
func (s *Server) end(sig syscall.Signal) error {
	s.mu.Lock()
	cmd, ended := s.cmd, s.ended
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return nil
	}
	group := -cmd.Process.Pid
	if sig == syscall.SIGTERM {
		group = cmd.Process.Pid // a drain lets hooks finish
	}
	if err := syscall.Kill(group, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.t.Errorf("kill %d: %v", group, err)
	}
	<-ended
	return s.err
}

// Repo returns the directory of a served repository.
func (s *Server) Repo(name string) string { return filepath.Join(s.Root, name) }

// Client returns a wire client for a served repository.
func (s *Server) Client(repo string) *Client { return NewClient(s.t, s.URL+"/"+repo) }
