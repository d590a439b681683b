package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vcsd/bench/report"
)

// A bench is one run of all measurements.
type bench struct {
	settings
	vcsd    string // command
	work    string // removed at the end
	results []report.Result
	failed  error // what vcsd failed at
	// requests of a pull without changes, and bytes of the revlogs that the
	// first push of the last history left, by server
	requests map[string]int
	stores   map[string]int64
	start    time.Time
}

// settings are what a run measures and how often.
type settings struct {
	sizes       []int // changesets of the woven histories
	files       int   // in each of them
	repos       []string
	rounds      int
	atOnceSizes []int // clones at once
	crowdMax    int   // clones at once times changesets, at most
	firstMax    int   // changesets of a history that is pushed as a whole
	pushers     []int // at once
	pushes      int   // single ones in a round
	heads       int
	branches    int
	bookmarks   int
	serving     []int         // repositories, at start-up
	quiet       time.Duration // how long a server must be idle to count as quiet
	hgweb       bool
	only        *regexp.Regexp
	out         string
	cache       string
}

func quick() settings {
	return settings{
		sizes: []int{1000, 10_000}, files: 1000, rounds: 3, atOnceSizes: []int{1, 8, 50}, crowdMax: 80_000, firstMax: 10_000,
		pushers: []int{1, 8, 64}, pushes: 20, heads: 20_000, branches: 10_000, bookmarks: 100_000, serving: []int{1, 100},
		quiet: 50 * time.Millisecond, hgweb: true,
	}
}

func full() settings {
	s := quick()
	s.sizes, s.rounds, s.crowdMax, s.firstMax = []int{1000, 10_000, 100_000}, 5, 800_000, 100_000
	s.pushers, s.pushes = []int{1, 4, 16, 64, 256}, 50
	return s
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run measures as the arguments say: 0 done, 1 failed, 2 misused.
func run(ctx context.Context, args []string) int {
	s, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := measure(ctx, s, ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func parse(args []string) (settings, error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	isQuick := f.Bool("quick", false, "histories of 1,000 and 10,000 changesets and three rounds: some ten minutes")
	sizes := f.String("sizes", "", "changesets of the synthetic histories, as 1000,1000000")
	rounds := f.Int("rounds", 0, "how often each scenario is measured")
	only := f.String("only", "", "measure scenarios only whose name matches a regular expression")
	out := f.String("out", "bench-out", "directory for tables and plots")
	cache := f.String("cache", "", "directory in which histories are kept for the next run (default: in the user's cache)")
	noWSGI := f.Bool("no-hgweb", false, "leave out hgweb, which needs gunicorn")
	var repos []string
	f.Func("repo", "measure clones and pulls of this repository too; may be repeated", func(s string) error {
		repos = append(repos, s)
		return nil
	})
	if err := f.Parse(args); err != nil {
		return settings{}, err
	}
	s := full()
	if *isQuick {
		s = quick()
	}
	s.repos, s.out, s.cache, s.hgweb = repos, *out, *cache, !*noWSGI
	if *rounds > 0 {
		s.rounds = *rounds
	}
	if *sizes != "" {
		s.sizes = nil
		for _, v := range strings.Split(*sizes, ",") {
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 {
				return s, fmt.Errorf("-sizes: %q is no number of changesets", v)
			}
			s.sizes = append(s.sizes, n)
		}
	}
	var err error
	if *only != "" {
		if s.only, err = regexp.Compile(*only); err != nil {
			return s, fmt.Errorf("-only: %w", err)
		}
	}
	if s.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			dir = os.TempDir()
		}
		s.cache = filepath.Join(dir, "vcsd-bench")
	}
	return s, nil
}

// measure does everything. vcsd is the command to measure; empty builds it.
func measure(ctx context.Context, s settings, vcsd string) (err error) {
	b := &bench{settings: s, vcsd: vcsd, start: time.Now(), requests: map[string]int{}, stores: map[string]int64{}}
	if err := errors.Join(os.MkdirAll(b.out, 0o755), os.MkdirAll(b.cache, 0o755)); err != nil {
		return err
	}
	if b.work, err = os.MkdirTemp("", "vcsd-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	if err := b.tools(ctx); err != nil {
		return err
	}
	if err := b.scenarios(ctx); err != nil {
		return err
	}
	return errors.Join(b.save(), b.failed)
}

// tools finds or makes the commands that are measured.
func (b *bench) tools(ctx context.Context) error {
	if err := need(ctx, "hg", "mercurial"); err != nil {
		return err
	}
	if b.hgweb {
		if err := need(ctx, "gunicorn", "gunicorn"); err != nil {
			return fmt.Errorf("%w (or leave hgweb out with -no-hgweb)", err)
		}
	}
	if b.vcsd != "" {
		return nil
	}
	b.vcsd = filepath.Join(b.work, "vcsd")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", b.vcsd, "vcsd/cmd/vcsd").CombinedOutput(); err != nil {
		return fmt.Errorf("build vcsd: %w\n%s", err, out)
	}
	return nil
}

// need installs a Debian package if a command is missing.
func need(ctx context.Context, command, debian string) error {
	if _, err := exec.LookPath(command); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "apt-get", "install", "-qq", "-y", "--no-install-recommends", debian)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s is missing, and Debian's package %s can't be installed: %w\n%s", command, debian, err, out)
	}
	return nil
}

// say tells on stderr how far the run is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(b.start).Seconds(), fmt.Sprintf(format, args...))
}
