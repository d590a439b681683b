package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"vcsd/bench/report"
)

// A measurement is one scenario on one repository.
type measurement struct {
	scenario string
	repo     *repository
	rounds   int
	ops      int // operations that one call of op does; 0 means 1
	warm     int // calls before the first that counts
	// fresh starts the server anew before each round and takes its peak of
	// memory.
	fresh  bool
	starts bool // op starts the server, which before has stopped
	// op does the operations on a server. The check, which may be nil, is
	// called after the clock has stopped.
	op func(ctx context.Context, s *server, round int) (check func() error, err error)
	// before is called before the clock starts; it may be nil.
	before func(ctx context.Context, s *server, round int) error
	// wall takes the times of single operations from op, if it measures them.
	wall func(s *server) []float64
}

// run measures servers in turn, round by round. A server that fails gets a note
// instead of figures, and is left alone for the other rounds.
func (b *bench) run(ctx context.Context, m measurement, servers ...*server) error {
	if b.only != nil && !b.only.MatchString(m.scenario) {
		return nil
	}
	m.ops = max(m.ops, 1)
	b.say("%s, %s", m.scenario, m.repo.name)
	results := make([]report.Result, len(servers))
	for i, s := range servers {
		results[i] = report.Result{Scenario: m.scenario, History: m.repo.name, Changesets: len(m.repo.nodes), Server: s.name, Ops: m.ops}
	}
	for round := -m.warm; round < m.rounds; round++ {
		for i, s := range servers {
			if results[i].Note != "" {
				continue
			}
			err := b.once(ctx, &m, s, round, &results[i])
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				b.fail(s, m.scenario, err)
				results[i] = report.Result{Scenario: m.scenario, History: m.repo.name, Changesets: len(m.repo.nodes), Server: s.name, Note: fmt.Sprintf("none: %.100v", err)}
			}
		}
	}
	b.results = append(b.results, results...)
	return b.save()
}

// once measures a server once; a round below 0 doesn't count.
func (b *bench) once(ctx context.Context, m *measurement, s *server, round int, r *report.Result) error {
	if m.fresh {
		if err := s.restart(ctx, repoName); err != nil {
			return err
		}
	}
	if m.before != nil {
		if err := m.before(ctx, s, round); err != nil {
			return fmt.Errorf("before: %w", err)
		}
	}
	var cpu time.Duration // of a process that isn't there yet
	if !m.starts {
		var err error
		if cpu, err = s.settled(ctx, b.quiet); err != nil {
			return err
		}
	}
	if m.fresh {
		if err := s.group.ResetPeak(); err != nil {
			return err
		}
	}
	start := time.Now()
	check, err := m.op(ctx, s, round)
	wall := time.Since(start)
	if err != nil {
		return err
	}
	used, err := s.settled(ctx, b.quiet)
	if err != nil {
		return err
	}
	peak := int64(0)
	if m.fresh {
		if peak, err = s.group.Peak(); err != nil {
			return err
		}
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	if round < 0 {
		return nil
	}
	if m.wall != nil {
		r.Wall = append(r.Wall, m.wall(s)...)
	} else {
		r.Wall = append(r.Wall, wall.Seconds()/float64(m.ops))
	}
	r.CPU = append(r.CPU, (used-cpu).Seconds()/float64(m.ops))
	if m.fresh {
		r.Peak = append(r.Peak, float64(peak))
	}
	return nil
}

// add adds to the results what no server did: a limit of the machine.
func (b *bench) add(r report.Result) { b.results = append(b.results, r) }

// fail remembers that a server failed.
func (b *bench) fail(s *server, scenario string, err error) {
	b.say("%s failed at %s: %v", s.name, scenario, err)
	if s.kind == vcsd {
		b.failed = errors.Join(b.failed, fmt.Errorf("%s: %s: %w", s.name, scenario, err))
	}
}

// crowd calls f for 0 to n-1 at once and returns the errors.
func crowd(n int, f func(i int) error) error {
	errs := make([]error, n)
	done := make(chan int)
	for i := range n {
		go func() {
			errs[i] = f(i)
			done <- i
		}()
	}
	for range n {
		<-done
	}
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return fmt.Errorf("client %d of %d: %w", i, n, errs[i])
	}
	return nil
}
