package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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

	// Native are commands that the server does by itself, and so are not run
	// here, such as "python:hgext.acl.hook".
	Native []string
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
	o = o.withDefaults()
	r := &Runner{hooks: parse(conf, o.Native), root: root, opts: o, base: sanitise(o.Environ)}
	r.base = append(r.base, "HG="+o.HG)
	if lookupEnv(o.Environ, "HGPLAIN") != "" || lookupEnv(o.Environ, "HGPLAINEXCEPT") != "" {
		r.plain = "1"
	}
	return r
}

// Check tells which hooks at these points, or at all, can't be run. Its error
// is an *hg.Abort with a sentence for each, with which to refuse what would
// reach those points.
func (r *Runner) Check(points ...Point) error {
	if len(points) == 0 {
		points = append(ReadPoints(), PushPoints()...)
	}
	var faults []string
	for _, p := range points {
		for _, c := range r.hooks[p] {
			if c.fault != "" {
				faults = append(faults, c.fault)
			}
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return &hg.Abort{Message: strings.Join(faults, "; "), Hint: "the administrator has to change the [hooks] section"}
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

// NeedsView reports whether a hook is configured that has to see what a push
// would do.
func (r *Runner) NeedsView() bool {
	for p := range r.hooks {
		if p.SeesPending() {
			return true
		}
	}
	return false
}

// A Call is one moment at which hooks are run.
type Call struct {
	Point Point
	Vars  Vars

	// Pending is the root of the repository that shows what is pending, for
	// hooks that are to see it; see the package overlay. Hooks are run in that
	// directory and find it in HG_PENDING. Empty means the repository's own
	// root.
	Pending string
}

// Run runs all hooks of a point, one after the other, and writes what they
// print to out as it comes. At a point that vetoes, the first hook that fails
// ends it with a *Veto; elsewhere a failure is a line of warning in out. Any
// other error is that of ctx or of out. After an error of ctx the hook has
// been killed and counts neither as passed nor as failed.
func (r *Runner) Run(ctx context.Context, call Call, out io.Writer) error {
	for i := range r.hooks[call.Point] {
		c := &r.hooks[call.Point][i]
		err := r.one(ctx, c, call, out)
		var veto *Veto
		if errors.As(err, &veto) && !call.Point.Vetoes() {
			_, err = fmt.Fprintf(out, "warning: %v\n", veto)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// one runs one hook.
func (r *Runner) one(ctx context.Context, c *command, call Call, out io.Writer) error {
	if c.fault != "" {
		return &Veto{c.name, "can't be run: " + c.fault}
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
		return &Veto{c.name, reason}
	}
	return nil
}
