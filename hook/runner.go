package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"vcsd/config"
	"vcsd/hg"
)

// Options tell how hooks are run. The zero value is usable.
type Options struct {
	// Timeout is how long one hook may run; its whole process group is killed
	// then. 0 means 10 minutes, a negative value means no limit.
	Timeout time.Duration

	// MaxOutputBytes is how much of one hook's output is passed on. 0 means
	// 1 MiB.
	MaxOutputBytes int64

	// Limit bounds how many hooks run at the same time, those of all Runners
	// that share it. Nil means a limit of 64 for this Runner alone.
	Limit *Limit

	// Environ is the environment that hooks inherit, less what belongs to the
	// server alone. Nil means the process's own.
	Environ []string

	// HG is the Mercurial command that hooks find in $HG. Empty means the one
	// on the PATH.
	HG string

	// Native are hooks that this process has in place of some in Python, by the
	// names of those, such as "hgext.acl.hook".
	Native map[string]Native
}

func (o Options) withDefaults() Options {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.MaxOutputBytes == 0 {
		o.MaxOutputBytes = 1 << 20
	}
	if o.Limit == nil {
		o.Limit = NewLimit(64)
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.HG == "" {
		o.HG = findHG(o.Environ)
	}
	return o
}

// findHG names Mercurial's command as hg itself would.
func findHG(environ []string) string {
	if name := lookupEnv(environ, "HG"); name != "" {
		return name
	}
	if path, err := exec.LookPath("hg"); err == nil {
		return path
	}
	return "hg"
}

// A Limit bounds how many hooks run at the same time.
type Limit struct{ places chan struct{} }

// NewLimit returns a Limit of n hooks.
func NewLimit(n int) *Limit { return &Limit{make(chan struct{}, max(n, 1))} }

func (l *Limit) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Limit) release() { <-l.places }

// A Runner runs the hooks of one repository.
type Runner struct {
	hooks map[Point][]command
	root  string
	opts  Options
	base  []string // environment of all hooks
	plain string   // HGPLAIN of the server, for hooks that inherit it
}

// New returns a Runner of the hooks that conf has for the repository whose
// root, the directory that holds .hg, is at the absolute path root.
func New(conf *config.Config, root string, o Options) *Runner {
	r := &Runner{hooks: parse(conf, o.Native), root: root}
	if len(r.hooks) == 0 {
		return r
	}
	o = o.withDefaults()
	r.opts, r.base = o, sanitise(o.Environ)
	r.base = append(r.base, "HG="+o.HG)
	if lookupEnv(o.Environ, "HGPLAIN") != "" || lookupEnv(o.Environ, "HGPLAINEXCEPT") != "" {
		r.plain = "1"
	}
	return r
}

// Faults returns a sentence for each hook at these points that can't be run.
func (r *Runner) Faults(points ...Point) []string {
	var all []string
	for _, p := range points {
		for _, c := range r.hooks[p] {
			if c.fault != nil {
				all = append(all, c.fault.message)
			}
		}
	}
	return all
}

// Check tells which hooks can't be run that could refuse something at these
// points. Its error is an *hg.Abort with a sentence for each, with which to
// refuse what would reach those points.
func (r *Runner) Check(points ...Point) error {
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return !p.Vetoes() })
	faults := r.Faults(points...)
	if len(faults) == 0 {
		return nil
	}
	return &hg.Abort{Message: strings.Join(faults, "; "), Hint: changeConfig}
}

// Has reports whether any hook is configured for one of the points.
func (r *Runner) Has(points ...Point) bool {
	for _, p := range points {
		if len(r.hooks[p]) > 0 {
			return true
		}
	}
	return false
}

// NeedsView reports whether a hook of a point is to be run in a directory that
// shows what is pending.
func (r *Runner) NeedsView(p Point) bool {
	return p.SeesPending() && slices.ContainsFunc(r.hooks[p], func(c command) bool { return c.fault == nil && c.native == nil })
}

// A Call is one moment at which hooks are run.
type Call struct {
	Point Point
	Vars  Vars

	// User is who sent the push, as authenticated; empty if nobody knows.
	User string

	// Changesets iterates over the new changesets of the push, for hooks in
	// this process. It may be nil if there are none.
	Changesets iter.Seq2[Changeset, error]

	// Pending is the root of the repository that shows what is pending, for
	// hooks that are to see it; see the package overlay. Hooks are run in that
	// directory and find it in HG_PENDING. Empty means the repository's own
	// root.
	Pending string
}

// Run runs all hooks of a point, one after the other, and writes what they
// print to out as it comes. At a point that vetoes, the first hook that fails
// ends it with a *Veto, or with the *hg.Abort of a Native; elsewhere a failure is
// a line of warning in out, and what is in Python is passed over. Any other error
// is that of ctx or of out. After an error of ctx the hook has been killed and
// counts neither as passed nor as failed.
func (r *Runner) Run(ctx context.Context, call Call, out io.Writer) error {
	for i := range r.hooks[call.Point] {
		c := &r.hooks[call.Point][i]
		if c.fault != nil && c.fault.logOnly && !call.Point.Vetoes() {
			continue
		}
		err := r.one(ctx, c, call, out)
		if err != nil && !call.Point.Vetoes() {
			err = warn(err, out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// warn makes a warning of the failure of a hook that has no veto. Native hooks
// have said what is wrong.
func warn(err error, out io.Writer) error {
	var veto *Veto
	var abort *hg.Abort
	switch {
	case errors.As(err, &veto):
		_, err = fmt.Fprintf(out, "warning: %v\n", veto)
	case errors.As(err, &abort):
		err = nil
	}
	return err
}

// one runs one hook.
func (r *Runner) one(ctx context.Context, c *command, call Call, out io.Writer) error {
	if c.fault != nil {
		return c.fault.veto(c.name)
	}
	if c.native != nil {
		return c.runNative(ctx, call, out)
	}
	if err := r.opts.Limit.acquire(ctx); err != nil {
		return err
	}
	defer r.opts.Limit.release()
	b := &bounded{w: out, left: r.opts.MaxOutputBytes}
	reason, err := r.process(ctx, c, call, b)
	if b.cut && b.err == nil {
		_, b.err = fmt.Fprintf(out, "\n(output of %s hook cut off after %d bytes)\n", c.name, r.opts.MaxOutputBytes)
	}
	switch {
	case err != nil:
		return err
	case b.err != nil:
		return fmt.Errorf("output of %s hook: %w", c.name, b.err)
	case reason != "":
		return &Veto{Hook: c.name, Message: c.name + " hook " + reason}
	}
	return nil
}
