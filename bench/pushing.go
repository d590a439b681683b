package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"vcsd/bench/history"
	"vcsd/bench/kernel"
	"vcsd/bench/report"
	"vcsd/internal/hgtest"
)

// push posts a bundle as hg does and returns the decoder of the answer.
func push(ctx context.Context, c *client, bundle []byte) (*hgtest.Answer, error) {
	return c.post(ctx, "unbundle", hgtest.Args{"heads": hgtest.Force}, bytes.NewReader(bundle), int64(len(bundle)))
}

// pushOnce is push of what must be taken, by a client of its own.
func pushOnce(ctx context.Context, s *server, bundle []byte) error {
	c := newClient(s.repo(repoName))
	defer c.close()
	a, err := push(ctx, c, bundle)
	if err != nil {
		return err
	}
	return checkPush(a)
}

// A tips is tips for each server: the same changesets go to all.
type tips map[*server][]*history.Tip

// plant makes n tips, each with a branch and a file of its own, and pushes the
// first changeset of each to the servers.
func (b *bench) plant(ctx context.Context, r *repository, l *lineup, id string, n int, branch func(i int) string) (tips, error) {
	all := tips{}
	for _, s := range l.all {
		for i := range n {
			all[s] = append(all[s], r.tip(branch(i), fmt.Sprintf("%s/file%03d", id, i)))
		}
		if err := pushOnce(ctx, s, history.Together(all[s], id)); err != nil {
			return nil, fmt.Errorf("%s: first changesets of %s: %w", s.name, id, err)
		}
	}
	return all, nil
}

// onePush measures pushes of one changeset, one after the other, beside what
// three syncs take on the disk at the same time.
func (b *bench) onePush(ctx context.Context, r *repository, l *lineup, scenario string) error {
	if b.only != nil && !b.only.MatchString(scenario) {
		return nil
	}
	t, err := b.plant(ctx, r, l, "single", 1, func(int) string { return "default" })
	if err != nil {
		return err
	}
	times := map[*server][]float64{}
	bundles := map[*server][][]byte{}
	syncs := report.Result{Scenario: scenario, History: r.name, Changesets: len(r.nodes), Server: nameSync, Ops: 1}
	err = b.run(ctx, measurement{scenario: scenario, repo: r, rounds: b.rounds, ops: b.pushes, warm: 1,
		before: func(_ context.Context, s *server, round int) error {
			bundles[s], times[s] = nil, nil
			for i := range b.pushes {
				bundles[s] = append(bundles[s], t[s][0].Grow(fmt.Sprintf("single %d", i)))
			}
			if s != l.all[0] || round < 0 {
				return nil
			}
			for range b.pushes {
				d, err := kernel.SyncTime(s.root, 3)
				if err != nil {
					return err
				}
				syncs.Wall = append(syncs.Wall, d.Seconds())
			}
			return nil
		},
		op: func(ctx context.Context, s *server, _ int) (func() error, error) {
			c := newClient(s.repo(repoName))
			defer c.close()
			for _, bundle := range bundles[s] {
				start := time.Now()
				a, err := push(ctx, c, bundle)
				times[s] = append(times[s], time.Since(start).Seconds())
				if err := errors.Join(err, checkedPush(a, err)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		wall: func(s *server) []float64 { return times[s] },
	}, l.all...)
	b.add(syncs)
	return err
}

// checkedPush is checkPush unless there was an error before.
func checkedPush(a *hgtest.Answer, err error) error {
	if err != nil {
		return nil
	}
	return checkPush(a)
}

// storms measures pushes at once.
func (b *bench) storms(ctx context.Context, r *repository, l *lineup) error {
	most := 0
	for _, n := range b.pushers {
		most = max(most, n)
	}
	if b.skips("pushers") || most == 0 {
		return nil
	}
	t, err := b.plant(ctx, r, l, "storm", most, func(i int) string { return fmt.Sprintf("storm%03d", i) })
	if err != nil {
		return err
	}
	for _, n := range b.pushers {
		if err := b.onBranches(ctx, r, l, t, n); err != nil {
			return err
		}
	}
	if t, err = b.plant(ctx, r, l, "contest", 1, func(int) string { return "default" }); err != nil {
		return err
	}
	for _, n := range b.pushers {
		if n == 1 {
			continue
		}
		if err := b.onOneBranch(ctx, r, l, t, n); err != nil {
			return err
		}
	}
	return nil
}

// onBranches lets n clients push one changeset each, to branches of their own.
func (b *bench) onBranches(ctx context.Context, r *repository, l *lineup, t tips, n int) error {
	bundles := map[*server][][]byte{}
	rounds, warm := b.few(r), 1
	if b.crowded(r, n) {
		rounds, warm = b.fewest(), 0
	}
	return b.run(ctx, measurement{scenario: fmt.Sprintf("%d pushers on as many branches", n), repo: r, rounds: rounds, ops: n, warm: warm,
		before: func(_ context.Context, s *server, _ int) error {
			bundles[s] = nil
			for i := range n {
				bundles[s] = append(bundles[s], t[s][i].Grow("storm"))
			}
			return nil
		},
		op: func(ctx context.Context, s *server, _ int) (func() error, error) {
			return nil, crowd(n, func(i int) error { return pushOnce(ctx, s, bundles[s][i]) })
		}}, l.all...)
}

// onOneBranch lets n clients push to one head, of whom one wins. The next round
// builds upon the winner.
func (b *bench) onOneBranch(ctx context.Context, r *repository, l *lineup, t tips, n int) error {
	bundles := map[*server][][]byte{}
	rounds := b.few(r)
	if b.crowded(r, n) {
		rounds = b.fewest()
	}
	return b.run(ctx, measurement{scenario: fmt.Sprintf("%d pushers on one head", n), repo: r, rounds: rounds, ops: n,
		before: func(_ context.Context, s *server, round int) error {
			head := t[s][0]
			bundles[s], t[s] = nil, t[s][:1]
			for i := range n {
				mine := *head
				bundles[s] = append(bundles[s], mine.Grow(fmt.Sprintf("contest of %d, round %d, pusher %d", n, round, i)))
				t[s] = append(t[s], &mine)
			}
			return nil
		},
		op: func(ctx context.Context, s *server, _ int) (func() error, error) {
			won := make([]bool, n)
			err := crowd(n, func(i int) error {
				c := newClient(s.repo(repoName))
				defer c.close()
				a, err := push(ctx, c, bundles[s][i])
				if err != nil {
					return err
				}
				err = checkContest(a)
				if won[i] = err == nil; errors.Is(err, errRaced) {
					return nil
				}
				return err
			})
			return func() error {
				winners := 0
				for i, w := range won {
					if w {
						winners++
						t[s][0] = t[s][1+i]
					}
				}
				if winners != 1 {
					return fmt.Errorf("%d of %d pushers won, want one", winners, n)
				}
				return nil
			}, err
		}}, l.all...)
}

// firstPush measures the push of a whole history into an empty repository.
func (b *bench) firstPush(ctx context.Context, r *repository, l *lineup, rounds int) error {
	if rounds == 0 {
		return nil
	}
	if _, err := os.Stat(r.bundle); err != nil {
		return err
	}
	return b.run(ctx, measurement{scenario: "first push of all", repo: r, rounds: rounds, fresh: true,
		op: func(ctx context.Context, s *server, round int) (check func() error, err error) {
			f, err := os.Open(r.bundle)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				return nil, err
			}
			name := fmt.Sprintf("empty%d", round)
			c := newClient(s.repo(name))
			defer c.close()
			// A push asks for a reply, before all else.
			caps := hgtest.Bundle2(hgtest.Part{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)})
			head := caps[:len(caps)-4] // without the end of the stream
			const magic = 8            // and parameters of the stream, of which there are none
			body := io.MultiReader(bytes.NewReader(head), io.NewSectionReader(f, magic, info.Size()-magic))
			a, err := c.post(ctx, "unbundle", hgtest.Args{"heads": hgtest.Force}, body, int64(len(head))+info.Size()-magic)
			if err != nil {
				return nil, err
			}
			return func() error {
				if err := checkPush(a); err != nil {
					return err
				}
				return b.storeBytes(s, name)
			}, nil
		}}, l.all...)
}

// storeBytes remembers how large the store is that a server wrote.
func (b *bench) storeBytes(s *server, name string) error {
	var sum int64
	err := walkFiles(filepath.Join(s.root, name, ".hg", "store"), func(file string, info os.FileInfo) {
		if ext := filepath.Ext(file); ext == ".i" || ext == ".d" {
			sum += info.Size()
		}
	})
	b.stores[s.name] = sum
	return err
}
