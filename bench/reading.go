package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"vcsd/bench/report"
	"vcsd/internal/hgtest"
)

// pull measures one pull by one client, so many times in a row.
func (b *bench) pull(ctx context.Context, r *repository, servers []*server, scenario string, w want, times int) error {
	return b.run(ctx, measurement{scenario: scenario, repo: r, rounds: b.rounds, ops: times, warm: 1,
		op: func(ctx context.Context, s *server, round int) (check func() error, err error) {
			for i := range times {
				w.unlike = fmt.Sprintf("%d.%d", round, i)
				c := newClient(s.repo(repoName))
				if check, err = w.pull(ctx, c); err != nil {
					return nil, err
				}
				c.close()
			}
			return check, nil
		}}, servers...)
}

// atOnce measures a pull by several clients.
func (b *bench) atOnce(ctx context.Context, r *repository, servers []*server, scenario string, w want, n int, fresh bool) error {
	rounds, warm := b.few(r), 1
	if b.crowded(r, n) {
		rounds, warm = b.fewest(), 0
	}
	var before func(context.Context, *server, int) error
	if fresh {
		// One at a time at first: hg serve fails requests that load its modules
		// at once.
		warm, before = 0, func(ctx context.Context, s *server, _ int) error {
			c := newClient(s.repo(repoName))
			defer c.close()
			w := w
			w.unlike = "first"
			_, err := w.pull(ctx, c)
			return err
		}
	}
	return b.run(ctx, measurement{scenario: scenario, repo: r, rounds: rounds, ops: n, warm: warm, fresh: fresh, before: before,
		op: func(ctx context.Context, s *server, round int) (func() error, error) {
			w.unlike = fmt.Sprintf("%d of %d", round, n) // the same for all of a round
			checks := make([]func() error, n)
			err := crowd(n, func(i int) (err error) {
				c := newClient(s.repo(repoName))
				defer c.close()
				checks[i], err = w.pull(ctx, c)
				return err
			})
			if err != nil {
				return nil, err
			}
			return func() error {
				for _, check := range checks {
					if err := check(); err != nil {
						return err
					}
				}
				return nil
			}, nil
		}}, servers...)
}

func (b *bench) clones(ctx context.Context, r *repository, l *lineup) error {
	w := r.last(len(r.nodes))
	for _, n := range b.crowds(r) {
		scenario := "clone"
		if n > 1 {
			scenario = fmt.Sprintf("%d clones at once", n)
		}
		if err := b.atOnce(ctx, r, l.withBare(), scenario, w, n, false); err != nil {
			return err
		}
	}
	return nil
}

// crowds is how many clones at once are measured on a repository.
func (b *bench) crowds(r *repository) (ns []int) {
	for _, n := range b.atOnceSizes {
		if n == 1 || n*len(r.nodes) <= b.crowdMax {
			ns = append(ns, n)
		}
	}
	return ns
}

// memory measures the peak of memory of a server that has just been started and
// sends eight clones at once.
func (b *bench) memory(ctx context.Context, r *repository, l *lineup) error {
	const n = 8
	if n*len(r.nodes) > b.crowdMax {
		return nil
	}
	return b.atOnce(ctx, r, l.withBare(), "memory: 8 clones", r.last(len(r.nodes)), n, true)
}

func (b *bench) pulls(ctx context.Context, r *repository, l *lineup) error {
	if err := b.pull(ctx, r, l.all, "pull without changes", r.last(0), 10); err != nil {
		return err
	}
	for _, n := range []int{1, 10, 1000} {
		if n >= len(r.nodes) {
			continue
		}
		if err := b.pull(ctx, r, l.all, fmt.Sprintf("pull %d", n), r.last(n), 5); err != nil {
			return err
		}
	}
	return nil
}

// streamClone measures stream clones beside what cat reaches with the files
// that travel in them.
func (b *bench) streamClone(ctx context.Context, r *repository, l *lineup) error {
	const scenario = "stream clone"
	if b.only != nil && !b.only.MatchString(scenario) {
		return nil
	}
	w := r.last(len(r.nodes))
	w.stream = true
	cat := report.Result{Scenario: scenario, History: r.name, Changesets: len(r.nodes), Server: nameCat, Ops: 1}
	err := b.run(ctx, measurement{scenario: scenario, repo: r, rounds: b.rounds, warm: 1,
		before: func(ctx context.Context, s *server, round int) error {
			if s != l.all[0] {
				return nil // once a round
			}
			d, err := catTime(ctx, filepath.Join(r.dir, ".hg", "store"))
			if round >= 0 {
				cat.Wall = append(cat.Wall, d.Seconds())
			}
			return err
		},
		op: func(ctx context.Context, s *server, round int) (func() error, error) {
			w.unlike = fmt.Sprint(round)
			c := newClient(s.repo(repoName))
			defer c.close()
			return w.getbundle(ctx, c)
		}}, l.all...)
	b.add(cat)
	return err
}

// The names of what isn't a server in tables.
const (
	nameCat  = "`cat` of the files"
	nameSync = "3 fdatasyncs"
)

// catTime is how long cat takes to send a store's revlogs over loopback.
func catTime(ctx context.Context, store string) (d time.Duration, err error) {
	var names bytes.Buffer
	var want int64
	if err := walkFiles(store, func(name string, info os.FileInfo) {
		if ext := filepath.Ext(name); ext == ".i" || ext == ".d" {
			names.WriteString(name + "\x00")
			want += info.Size()
		}
	}); err != nil {
		return 0, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	sent := make(chan error, 1)
	go func() { sent <- catTo(ctx, l, &names) }()
	start := time.Now()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	// As a client of HTTP does: into memory of its own.
	var got bytes.Buffer
	got.Grow(int(want) + bytes.MinRead)
	if _, err := got.ReadFrom(conn); err != nil {
		return 0, err
	}
	d = time.Since(start)
	if err := <-sent; err != nil || int64(got.Len()) != want {
		return 0, fmt.Errorf("cat sent %d of %d bytes: %w", got.Len(), want, err)
	}
	return d, nil
}

// catTo lets cat write to the connection that comes.
func catTo(ctx context.Context, l net.Listener, names io.Reader) (err error) {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	f, err := conn.(*net.TCPConn).File() // in blocking mode, as cat wants it
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	cmd := exec.CommandContext(ctx, "xargs", "-0", "cat")
	cmd.Stdin, cmd.Stdout = names, f
	return errors.Join(cmd.Run(), f.Close(), conn.Close())
}

// realHg measures whole commands of hg.
func (b *bench) realHg(ctx context.Context, r *repository, l *lineup) error {
	local := filepath.Join(b.work, "local")
	if err := r.copyTo(ctx, local); err != nil {
		return err
	}
	defer os.RemoveAll(local) // work is removed as a whole
	hg := func(scenario string, op func(ctx context.Context, s *server) (func() error, error)) error {
		return b.run(ctx, measurement{scenario: scenario, repo: r, rounds: b.few(r),
			op: func(ctx context.Context, s *server, _ int) (func() error, error) { return op(ctx, s) }}, l.all...)
	}
	return inOrder(
		func() error {
			return hg("hg clone", func(ctx context.Context, s *server) (func() error, error) {
				dest := filepath.Join(b.work, "clone")
				return remove(dest), b.hg(ctx, "", "clone", "-q", "-U", s.repo(repoName), dest)
			})
		},
		func() error {
			return hg("hg pull without changes", func(ctx context.Context, s *server) (func() error, error) {
				out, err := b.hgOutput(ctx, local, "pull", "--debug", s.repo(repoName))
				return func() error {
					if !strings.Contains(out, "no changes found") {
						return fmt.Errorf("pull said %.200q", out)
					}
					b.requests[s.name] = strings.Count(out, "sending ")
					return nil
				}, err
			})
		},
	)
}

// hgOutput runs hg and returns what it printed.
func (b *bench) hgOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "hg", args...)
	cmd.Dir, cmd.Env = dir, hgtest.Env(b.work, os.DevNull)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
