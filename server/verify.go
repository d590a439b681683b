package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"vcsd/ingest"
	"vcsd/internal/vfs"
	"vcsd/refs"
	"vcsd/verify"
)

type verifyCmd struct {
	maintained `embed:""`

	Sample int    `placeholder:"N" help:"Read N revisions of each log, drawn at random, and not all."`
	Seed   uint64 `placeholder:"N" help:"Draw others than with another seed."`
	JSON   bool   `name:"json" help:"Print each finding as a JSON object."`
}

// Help tells what it means.
func (*verifyCmd) Help() string {
	return `It takes no lock and disturbs nobody: servers may go on taking pushes. Each
line of output is a finding: file, revision, what is wrong, and what to do about
it. The exit code is 0 if there are none, 1 if there are some, and 255 if it
could not be told.`
}

// Run verifies the repositories.
func (c *verifyCmd) Run(s *streams) (err error) {
	if c.Sample < 0 {
		return fmt.Errorf("--sample %d: not a number of revisions", c.Sample)
	}
	conf, targets, err := c.targets()
	if err != nil {
		return err
	}
	bootID, err := ingest.BootID()
	if err != nil {
		return err
	}
	client, leave, err := c.reach(s, conf)
	if err != nil {
		fmt.Fprintf(s.stderr, "note: not compared with the coordination service: %v\n", err)
	} else {
		defer func() { err = errors.Join(err, leave()) }()
	}
	code := 0
	for _, t := range targets {
		counts, err := c.verify(s, t, client, bootID)
		switch {
		case err != nil:
			code = aborted
			failed(fmt.Errorf("%s%w", t.prefix(), err), s.stderr)
		case counts.Findings > 0:
			code = max(code, 1)
		}
	}
	if code > 0 {
		return &exitError{code: code}
	}
	return nil
}

// reach connects to the coordination service, if there is one: nothing is made.
func (c *verifyCmd) reach(s *streams, conf *loaded) (*refs.Client, func() error, error) {
	serve := c.serve()
	if len(c.Etcd) == 0 && len(conf.vcsd.Etcd) == 0 {
		dir, err := serve.stateDir(conf.vcsd.State)
		if err != nil {
			return nil, nil, err
		}
		fsys := vfs.NewOS(dir)
		if there, err := vfs.Exists(fsys, "etcd"); err != nil || !there {
			return nil, nil, errors.Join(err, fmt.Errorf("there is none in %s", dir))
		}
		if err := checkOwner(fsys, "etcd"); err != nil {
			return nil, nil, err
		}
	}
	return serve.connect(s.ctx, conf.vcsd, "verify", s.warnings())
}

// refs adds to o where a repository's refs are, if it has any.
func (t *target) refs(o *verify.Options, client *refs.Client) error {
	id, ok, err := readID(t.fs())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !ok || client == nil {
		return nil
	}
	o.Refs, o.RepoID = client, id
	return err
}

// verify verifies one repository.
func (c *verifyCmd) verify(s *streams, t target, client *refs.Client, bootID string) (verify.Counts, error) {
	var werr error
	print := func(w io.Writer, line string) {
		_, err := fmt.Fprintf(w, "%s%s\n", t.prefix(), line)
		werr = errors.Join(werr, err)
	}
	o := verify.Options{
		Sample: c.Sample, Seed: c.Seed, BootID: bootID,
		Report: func(f verify.Finding) {
			if c.JSON {
				b, err := json.Marshal(jsonFinding(t, f))
				werr = errors.Join(werr, err)
				_, err = fmt.Fprintf(s.stdout, "%s\n", b)
				werr = errors.Join(werr, err)
				return
			}
			print(s.stdout, f.String())
		},
		Progress: func(p verify.Progress) {
			fmt.Fprintf(s.stderr, "%schecking %s: %d of %d (%.0f/s)\n", t.prefix(), p.Stage, p.Done, p.Total, p.Rate)
		},
	}
	if err := t.refs(&o, client); err != nil {
		return verify.Counts{}, err
	}
	counts, err := verify.Run(s.ctx, t.fs(), o)
	if err = errors.Join(err, werr); err != nil {
		return counts, err
	}
	for _, n := range counts.Notes {
		fmt.Fprintf(s.stderr, "%snote: %s\n", t.prefix(), n)
	}
	out := s.stdout
	if c.JSON {
		out = s.stderr
	}
	print(out, countsText(counts))
	if counts.Findings > 0 {
		print(out, fmt.Sprintf("%d findings", counts.Findings))
	}
	return counts, werr
}

// jsonFinding is a finding as it is printed with --json.
func jsonFinding(t target, f verify.Finding) any {
	o := struct {
		Repository string `json:"repository"`
		File       string `json:"file"`
		Path       string `json:"path,omitempty"`
		Rev        *int32 `json:"rev,omitempty"`
		Node       string `json:"node,omitempty"`
		Problem    string `json:"problem"`
		Remedy     string `json:"remedy"`
	}{Repository: t.path, File: f.File, Path: f.Path, Problem: f.Problem, Remedy: f.Remedy}
	if rev := int32(f.Rev); rev >= 0 {
		o.Rev = &rev
	}
	if !f.Node.IsNull() {
		o.Node = f.Node.String()
	}
	return o
}

// countsText tells what was looked at, in hg's words, and how fast.
func countsText(c verify.Counts) string {
	what := "checked"
	if !c.Complete {
		what = "checked a sample:"
	}
	seconds := max(c.Took, time.Millisecond).Seconds()
	return fmt.Sprintf("%s %d changesets with %d changes to %d files\n(%d manifests, %d records of the journal; %.1f MB in %.1f s, %.1f MB/s)",
		what, c.Changesets, c.FileRevisions, c.Files, c.Manifests, c.Records,
		float64(c.Bytes)/1e6, seconds, float64(c.Bytes)/1e6/seconds)
}
