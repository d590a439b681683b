package hgtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
)

// A Session is one long-lived hg process that runs commands in turn (hg's
// command server), which spares the start of Python for each. It belongs to
// one goroutine.
type Session struct {
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Reader
}

// Session starts an hg process in h.Dir, which must be a repository. It ends
// with the test.
func (h *HG) Session() *Session {
	h.t.Helper()
	cmd := h.Command(context.Background(), "serve", "--cmdserver", "pipe")
	in, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	s := &Session{t: h.t, in: in, out: bufio.NewReader(out)}
	h.t.Cleanup(func() {
		in.Close() // its end of file ends the process
		if err := cmd.Wait(); err != nil {
			h.t.Errorf("command server: %v", err)
		}
	})
	if _, _, err := s.chunk(); err != nil { // the greeting
		h.t.Fatalf("command server: %v", err)
	}
	return s
}

// Try runs a command and returns how it went.
func (s *Session) Try(args ...string) Result {
	s.t.Helper()
	joined := strings.Join(args, "\x00")
	msg := binary.BigEndian.AppendUint32([]byte("runcommand\n"), uint32(len(joined)))
	if _, err := s.in.Write(append(msg, joined...)); err != nil {
		s.t.Fatalf("command server: %v", err)
	}
	var stdout, stderr bytes.Buffer
	for {
		channel, data, err := s.chunk()
		if err != nil {
			s.t.Fatalf("command server, hg %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		switch channel {
		case 'o':
			stdout.Write(data)
		case 'e':
			stderr.Write(data)
		case 'r':
			return Result{stdout.String(), stderr.String(), int(int32(binary.BigEndian.Uint32(data)))}
		}
	}
}

// Run runs a command, which must succeed, and returns what it printed.
func (s *Session) Run(args ...string) string {
	s.t.Helper()
	r := s.Try(args...)
	if r.Code != 0 {
		s.t.Fatalf("hg %s: exit status %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// chunk reads one message: a channel, a length, and for output channels as
// many bytes. A request for input gets the answer "end of file".
func (s *Session) chunk() (channel byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(s.out, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	switch head[0] {
	case 'I', 'L':
		_, err := s.in.Write([]byte{0, 0, 0, 0})
		return head[0], nil, err
	case 'o', 'e', 'r', 'd':
		data = make([]byte, n)
		_, err := io.ReadFull(s.out, data)
		return head[0], data, err
	}
	return 0, nil, fmt.Errorf("unknown channel %q", head[0])
}
