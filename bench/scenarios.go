package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"vcsd/bench/history"
)

// scenarios measures everything, history by history.
func (b *bench) scenarios(ctx context.Context) error {
	for _, n := range b.sizes {
		r, err := b.woven(ctx, n)
		if err != nil {
			return err
		}
		if err := b.onHistory(ctx, r); err != nil {
			return err
		}
	}
	for _, path := range b.repos {
		r, err := b.given(ctx, path)
		if err != nil {
			return err
		}
		if err := b.onHistory(ctx, r); err != nil {
			return err
		}
	}
	return b.wide(ctx)
}

// few is for scenarios that take long on large histories.
func (b *bench) few(r *repository) int {
	if len(r.nodes) > 2000 {
		return (b.rounds + 1) / 2
	}
	return b.rounds
}

// crowded tells whether so many clients at once make a scenario long by
// themselves. It has operations enough to need fewer rounds, and none to warm up.
func (b *bench) crowded(r *repository, n int) bool {
	return n >= 50 || n > 1 && n*len(r.nodes) > 20_000
}

func (b *bench) fewest() int { return min(b.rounds, max(2, b.rounds/2)) }

// onHistory measures all that depends on the length of a history.
func (b *bench) onHistory(ctx context.Context, r *repository) (err error) {
	first := 0
	if len(r.nodes) <= b.firstMax {
		first = b.few(r)
	}
	l, err := b.lineup(ctx, r, true, b.initEmpty(ctx, "empty", first))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	return inOrder(
		func() error { return b.clones(ctx, r, l) },
		func() error { return b.streamClone(ctx, r, l) },
		func() error { return b.pulls(ctx, r, l) },
		func() error { return b.realHg(ctx, r, l) },
		func() error { return b.memory(ctx, r, l) },
		// From here on the servers' repositories grow.
		func() error { return b.onePush(ctx, r, l, "push 1 changeset") },
		func() error { return b.storms(ctx, r, l) },
		func() error { return b.firstPush(ctx, r, l, first) },
	)
}

// inOrder calls functions until one fails.
func inOrder(fs ...func() error) error {
	for _, f := range fs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// wide measures what doesn't depend on the length of a history, on those that
// are large in another way.
func (b *bench) wide(ctx context.Context) error {
	return inOrder(
		func() error { return b.startUp(ctx) },
		func() error { return b.manyHeads(ctx) },
		func() error { return b.manyBranches(ctx) },
		func() error { return b.manyBookmarks(ctx) },
	)
}

// on measures on a repository that only one scenario needs.
func (b *bench) on(ctx context.Context, r *repository, f func(*lineup) error) (err error) {
	l, err := b.lineup(ctx, r, false, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	return f(l)
}

func (b *bench) manyHeads(ctx context.Context) error {
	if b.skips("heads") {
		return nil
	}
	r, err := b.synthetic(ctx, fmt.Sprintf("heads-%d", b.heads), history.Fan{Heads: b.heads}.WriteBundle)
	if err != nil {
		return err
	}
	return b.on(ctx, r, func(l *lineup) error {
		return inOrder(
			func() error { return b.ask(ctx, r, l, "heads: ask for heads", "heads", 41*b.heads) },
			func() error { return b.ask(ctx, r, l, "heads: ask for branches", "branchmap", 41*b.heads) },
			func() error { return b.onePush(ctx, r, l, "heads: push 1 changeset") },
		)
	})
}

func (b *bench) manyBranches(ctx context.Context) error {
	if b.skips("branches") {
		return nil
	}
	r, err := b.synthetic(ctx, fmt.Sprintf("branches-%d", b.branches), history.Fan{Heads: b.branches, Branches: true}.WriteBundle)
	if err != nil {
		return err
	}
	return b.on(ctx, r, func(l *lineup) error {
		return inOrder(
			func() error { return b.ask(ctx, r, l, "branches: ask for branches", "branchmap", 50*b.branches) },
			func() error { return b.onePush(ctx, r, l, "branches: push 1 changeset") },
		)
	})
}

func (b *bench) manyBookmarks(ctx context.Context) error {
	if b.skips("bookmarks") {
		return nil
	}
	name := fmt.Sprintf("bookmarks-%d", b.bookmarks)
	w := history.Woven{Seed: 2, Changesets: 500, Files: 50, Lines: 2}
	r, err := b.prepare(ctx, name, func(dir, bundle string) error {
		plain, err := b.synthetic(ctx, "for-"+name, w.WriteBundle)
		if err != nil {
			return err
		}
		if err := plain.copyTo(ctx, dir); err != nil {
			return err
		}
		return writeFile(filepath.Join(dir, ".hg", "bookmarks"), func(f io.Writer) error {
			for i := range b.bookmarks {
				if _, err := fmt.Fprintf(f, "%s mark-%06d\n", plain.nodes[i%len(plain.nodes)], i); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	r.bookmarks = b.bookmarks
	return b.on(ctx, r, func(l *lineup) error {
		return inOrder(
			func() error {
				return b.pull(ctx, r, l.all, "bookmarks: pull without changes", r.last(0), 1)
			},
			func() error { return b.onePush(ctx, r, l, "bookmarks: push 1 changeset") },
		)
	})
}

// skips tells that -only leaves out all scenarios that start with a word. What
// it matches inside their names counts too.
func (b *bench) skips(word string) bool {
	return b.only != nil && !strings.Contains(b.only.String(), word)
}

// ask sends a command without arguments whose answer has at least so many
// bytes.
func (b *bench) ask(ctx context.Context, r *repository, l *lineup, scenario, command string, atLeast int) error {
	return b.run(ctx, measurement{scenario: scenario, repo: r, rounds: b.rounds, warm: 1,
		op: func(ctx context.Context, s *server, _ int) (func() error, error) {
			c := newClient(s.repo(repoName))
			defer c.close()
			a, err := c.call(ctx, command, nil)
			if err != nil {
				return nil, err
			}
			return func() error {
				if len(a.Body) < atLeast {
					return fmt.Errorf("%s: answer of %d bytes, want at least %d", command, len(a.Body), atLeast)
				}
				return nil
			}, nil
		}}, l.all...)
}

// startUp measures the time from the start of a process to its first answer.
func (b *bench) startUp(ctx context.Context) (err error) {
	if b.skips("start-up") {
		return nil
	}
	r, err := b.woven(ctx, min(1000, b.sizes[0]))
	if err != nil {
		return err
	}
	for _, n := range b.serving {
		l, err := b.lineup(ctx, r, false, b.initEmpty(ctx, "other", n-1))
		if err != nil {
			return err
		}
		scenario := fmt.Sprintf("start-up with %d repositories", n)
		if n == 1 {
			scenario = "start-up with 1 repository"
		}
		err = b.run(ctx, measurement{scenario: scenario, repo: r, rounds: b.rounds, starts: true,
			before: func(_ context.Context, s *server, _ int) error { return s.stop() },
			op: func(ctx context.Context, s *server, _ int) (func() error, error) {
				return nil, s.start(ctx, repoName)
			}}, l.all...)
		if err := errors.Join(err, l.close()); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a directory that an operation made.
func remove(dir string) func() error { return func() error { return os.RemoveAll(dir) } }
