package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// repoName is what the repository measured is called on every server; beside it
// may be empty ones.
const repoName = "r"

// A lineup is the servers that are compared on one history, all running.
type lineup struct {
	bare *server // vcsd that makes no bundles ahead; nil where that makes no difference
	all  []*server
}

// The servers' names in tables.
const (
	nameBare    = "vcsd, nothing prepared"
	nameVcsd    = "vcsd"
	nameHgServe = "hg serve"
	nameHgweb   = "hgweb, 5 workers"
)

// lineup copies a repository for each server and starts them. with makes
// further repositories in a server's root.
func (b *bench) lineup(ctx context.Context, r *repository, bare bool, with func(s *server) error) (l *lineup, err error) {
	l = &lineup{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
			l = nil
		}
	}()
	add := func(id, name string, k kind, config ...string) (*server, error) {
		s, err := b.newServer(filepath.Join(b.work, r.name, id), name, k, config...)
		if err != nil {
			return nil, err
		}
		if err := r.copyTo(ctx, filepath.Join(s.root, repoName)); err != nil {
			return nil, err
		}
		if with != nil {
			if err := with(s); err != nil {
				return nil, err
			}
		}
		return s, s.start(ctx, repoName)
	}
	if bare {
		if l.bare, err = add("bare", nameBare, vcsd, "vcsd.pull-bundles=0"); err != nil {
			return l, err
		}
	}
	for _, c := range []struct {
		id, name string
		kind     kind
		leave    bool
	}{
		{"vcsd", nameVcsd, vcsd, false},
		{"hg", nameHgServe, hgServe, false},
		{"hgweb", nameHgweb, hgweb, !b.hgweb},
	} {
		if c.leave {
			continue
		}
		s, err := add(c.id, c.name, c.kind)
		if s != nil {
			l.all = append(l.all, s)
		}
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

// withBare is all servers, vcsd without bundles made ahead too.
func (l *lineup) withBare() []*server {
	if l.bare == nil {
		return l.all
	}
	return append([]*server{l.bare}, l.all...)
}

// close ends the servers and removes what they had.
func (l *lineup) close() (err error) {
	for _, s := range l.withBare() {
		err = errors.Join(err, s.stop(), os.RemoveAll(filepath.Dir(s.home)))
	}
	return err
}

// initEmpty makes empty repositories beside the one measured.
func (b *bench) initEmpty(ctx context.Context, prefix string, n int) func(*server) error {
	return func(s *server) error {
		if n == 0 {
			return nil
		}
		first := filepath.Join(s.root, prefix+"0")
		if err := b.hg(ctx, "", "init", first); err != nil {
			return err
		}
		for i := 1; i < n; i++ {
			if out, err := exec.CommandContext(ctx, "cp", "-a", first, filepath.Join(s.root, fmt.Sprintf("%s%d", prefix, i))).CombinedOutput(); err != nil {
				return fmt.Errorf("copy an empty repository: %w\n%s", err, out)
			}
		}
		return nil
	}
}
