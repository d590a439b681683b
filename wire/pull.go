package wire

import (
	"context"
	"errors"
	"slices"
	"strings"

	"vcsd/hg"
	"vcsd/wire/bundle2"
)

func changegroup(ctx context.Context, c *call, s *Stream) error {
	roots, err := parseNodes(c.args["roots"])
	if err != nil {
		return err
	}
	v, err := c.view.get(ctx)
	if err != nil {
		return err
	}
	return v.Changegroup(ctx, roots, nil, s)
}

func changegroupSubset(ctx context.Context, c *call, s *Stream) error {
	roots, err := parseNodes(c.args["bases"])
	if err != nil {
		return err
	}
	heads, err := parseNodes(c.args["heads"])
	if err != nil {
		return err
	}
	v, err := c.view.get(ctx)
	if err != nil {
		return err
	}
	if heads == nil {
		heads = []hg.Node{} // none, rather than all
	}
	return v.Changegroup(ctx, roots, heads, s)
}

// streamOut answers "1" if the server doesn't offer it: a client that asks
// nevertheless reads a code there.
func streamOut(ctx context.Context, c *call, s *Stream) error {
	if !c.features.StreamOut {
		_, err := s.Write([]byte("1\n"))
		return err
	}
	v, err := c.view.get(ctx)
	if err != nil {
		return err
	}
	return v.StreamOut(ctx, s)
}

var (
	errBundle2Required = &hg.Abort{Message: "incompatible Mercurial client; bundle2 required",
		Hint: "see https://www.mercurial-scm.org/wiki/IncompatibleClient"}
	errNoFullPull = &hg.Abort{Message: "server has pull-based clones disabled",
		Hint: "remove --pull if specified or upgrade Mercurial"}
)

// getBundle tells a client of bundle2 about an error inside a bundle2.
func getBundle(ctx context.Context, c *call, s *Stream) error {
	args, err := parseGetBundle(c.args)
	if err != nil {
		return err
	}
	args.PartialPull = c.client.partialPull
	if !args.Bundle2 {
		if !c.features.Bundle1Pull {
			return errBundle2Required
		}
		if err := onlyBundle1(c.args); err != nil {
			return err
		}
	}
	if args.Stream {
		s.Uncompressed() // as in hg: the chunks of the store are compressed
	}
	err = c.getBundle(ctx, args, s)
	if err == nil || s.started || !args.Bundle2 {
		return err
	}
	s.Uncompressed()
	s.encoded, s.size = false, -1
	reply, werr := EncodeErrorReply(err, nil, "")
	if werr != nil {
		return errors.Join(err, werr)
	}
	if _, werr := s.Write(reply); werr != nil {
		return errors.Join(err, werr)
	}
	return &answeredError{err}
}

// onlyBundle1 refuses, in hg's words, arguments that a bare changegroup has no
// place for.
func onlyBundle1(a Args) error {
	var extra []string
	for _, name := range []string{"bookmarks", "cbattempted", "cg", "listkeys", "obsmarkers", "phases", "stream"} {
		if _, ok := a[name]; ok {
			extra = append(extra, name)
		}
	}
	if len(extra) == 0 {
		return nil
	}
	return hg.Abortf("unsupported getbundle arguments: %s", strings.Join(extra, ", "))
}

func (c *call) getBundle(ctx context.Context, args GetBundleArgs, s *Stream) error {
	v, err := c.view.get(ctx)
	if err != nil {
		return err
	}
	if c.features.PullBundles && args.PartialPull {
		if served, err := v.PullBundle(ctx, args, s); served || err != nil {
			return err
		}
	}
	if c.features.NoFullPull && args.Changegroup && len(args.Common) == 0 {
		heads, err := v.Heads(ctx)
		if err != nil {
			return err
		}
		if slices.Equal(sortedNodes(heads), sortedNodes(args.Heads)) {
			return errNoFullPull
		}
	}
	return v.GetBundle(ctx, args, s)
}

// parseGetBundle reads the arguments and ignores those that it doesn't know.
func parseGetBundle(a Args) (GetBundleArgs, error) {
	args := GetBundleArgs{Changegroup: true, Caps: map[string][]string{}}
	var err error
	if args.Heads, err = parseNodes(a["heads"]); err != nil {
		return args, err
	}
	if args.Common, err = parseNodes(a["common"]); err != nil {
		return args, err
	}
	args.Common = slices.DeleteFunc(args.Common, hg.Node.IsNull)
	if v, ok := a["listkeys"]; ok {
		args.ListKeys = strings.Split(v, ",")
	}
	for name, p := range map[string]*bool{
		"cg": &args.Changegroup, "cbattempted": &args.CBAttempted, "bookmarks": &args.Bookmarks,
		"obsmarkers": &args.Obsmarkers, "phases": &args.Phases, "stream": &args.Stream,
	} {
		if v, ok := a[name]; ok {
			*p = v != "" && v != "0"
		}
	}
	if v, ok := a["bundlecaps"]; ok {
		args.setBundleCaps(v)
	}
	return args, nil
}

// setBundleCaps reads the list of what the client can unbundle. Its bundle2
// capabilities are quoted a second time, behind "bundle2=".
func (args *GetBundleArgs) setBundleCaps(list string) {
	for word := range strings.SplitSeq(list, ",") {
		args.BundleCaps = append(args.BundleCaps, word)
		if strings.HasPrefix(word, "HG2") {
			args.Bundle2 = true
		}
		if blob, ok := strings.CutPrefix(word, "bundle2="); ok {
			for name, values := range bundle2.DecodeCaps(bundle2.Unquote(blob)) {
				args.Caps[name] = values
			}
		}
	}
}
