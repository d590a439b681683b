package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"vcsd/hg"
	"vcsd/ingest"
	"vcsd/refs"
)

type recoverCmd struct {
	maintained `embed:""`

	RebuildRefs bool `help:"Make tip and heads anew from journal and store, after the coordination service was lost for good."`
	Force       bool `help:"Replace a tip that the coordination service has, whatever it is."`
}

// Help tells when it is needed.
func (*recoverCmd) Help() string {
	return `Nothing needs this after a crash, a power cut or a full disk: opening a
repository brings it up to the published tip. It is for the loss of the
coordination service: of the state directory of the embedded etcd, or of all
members of an external one. A server then takes no pushes to repositories whose
journal goes further than what the service knows, and says so in its log.

With --rebuild-refs the newest record of each journal that is chained to what
the store holds becomes the published tip again. What was acknowledged is among
those records. Pushes that were sent and not answered may turn out to be there.
If several machines served the repository, run it on the one whose journal goes
furthest. The server may run meanwhile; it takes pushes again within seconds.`
}

// Run makes the refs of the repositories anew.
func (c *recoverCmd) Run(s *streams) (err error) {
	if !c.RebuildRefs {
		return hg.Abortf("nothing needs to be recovered after a crash: vcsd does that when it opens a repository; see vcsd recover --help for --rebuild-refs")
	}
	conf, targets, err := c.targets()
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := checkOwner(t.fs(), ""); err != nil {
			return err
		}
	}
	client, leave, err := c.serve().connect(s.ctx, conf.vcsd, "recover", s.warnings())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	bad := 0
	for _, t := range targets {
		err := c.restore(s, conf, client, t)
		switch {
		case errors.Is(err, errNeverServed) && t.name != "":
			fmt.Fprintf(s.stdout, "%s%v\n", t.prefix(), err)
		case err != nil:
			bad++
			failed(fmt.Errorf("%s%w", t.prefix(), err), s.stderr)
		}
	}
	if bad > 0 {
		return &exitError{code: aborted}
	}
	return nil
}

// restore makes the refs of one repository anew.
func (c *recoverCmd) restore(s *streams, conf *loaded, client *refs.Client, t target) error {
	fsys := t.fs()
	id, ok, err := readID(fsys)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !ok {
		return errNeverServed
	}
	if err != nil {
		return err
	}
	options, err := c.options(s, conf, id, t)
	if err != nil {
		return err
	}
	r, err := ingest.RestoreRefs(s.ctx, fsys, client, options, c.Force)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "%s%s\n", t.prefix(), restoredText(r))
	return nil
}

func (c *recoverCmd) options(s *streams, conf *loaded, id refs.RepoID, t target) (ingest.Options, error) {
	bootID, err := ingest.BootID()
	if err != nil {
		return ingest.Options{}, err
	}
	wait, err := lockWait(conf.config, conf.vcsd)
	if err != nil {
		return ingest.Options{}, err
	}
	host, err := os.Hostname()
	return ingest.Options{
		RepoID: id, Node: host, Log: s.warnings(), BootID: bootID,
		Limits: ingest.Limits{LockWait: wait}, Root: t.path, StoreDir: t.dir,
	}, err
}

// restoredText tells what was done.
func restoredText(r ingest.Restored) string {
	what := fmt.Sprintf("record %d is the published tip again", r.Tip.Seq)
	switch {
	case r.Was == r.Tip:
		what = fmt.Sprintf("record %d is the published tip already", r.Tip.Seq)
	case r.Was.Seq > 0:
		what = fmt.Sprintf("record %d is the published tip in place of record %d", r.Tip.Seq, r.Was.Seq)
	}
	text := fmt.Sprintf("%s: %d changesets, %d branches", what, r.Tip.ChangelogLen, r.Branches)
	if n := int64(r.Tip.Seq) - int64(r.Linked.Seq); n > 0 {
		text += fmt.Sprintf("; %d records were not in the store, and are now", n)
	}
	return text
}
