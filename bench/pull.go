package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// clientCaps is what hg 6.3 says of itself when it pulls.
const clientCaps = "HG20,bundle2=HG20%0Abookmarks%0Achangegroup%3D01%2C02%0Acheckheads%3Drelated%0A" +
	"digests%3Dmd5%2Csha1%2Csha512%0Aerror%3Dabort%2Cunsupportedcontent%2Cpushraced%2Cpushkey%0Ahgtagsfnodes%0A" +
	"listkeys%0Aphases%3Dheads%0Apushkey%0Aremote-changegroup%3Dhttp%2Chttps%0Astream%3Dv2"

// A want is what a pull asks for: the ancestors of heads that are none of
// common, which are changesets in number.
type want struct {
	heads, common []hg.Node
	changesets    int
	stream        bool // a stream clone
	// unlike tells the request from others for the same, for servers that keep
	// answers: it stands among the client's capabilities.
	unlike    string
	bookmarks int // how many there are
}

// pull sends what hg 6.3 sends for a pull or clone: it asks for capabilities,
// heads and which of the client's are known, then for a bundle. It returns a
// check of the last answer, to be called before c is used again.
func (w want) pull(ctx context.Context, c *client) (check func() error, err error) {
	a, err := c.call(ctx, "capabilities", nil)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(string(a.Body), "getbundle") {
		return nil, fmt.Errorf("capabilities %.80q", a.Body)
	}
	if a, err = c.call(ctx, "batch", hgtest.Args{"cmds": "heads ;known nodes=" + hgtest.JoinNodes(w.common)}); err != nil {
		return nil, err
	}
	if err := w.checkDiscovery(string(a.Body)); err != nil {
		return nil, err
	}
	return w.getbundle(ctx, c)
}

// checkDiscovery checks the answer to heads and known.
func (w want) checkDiscovery(answer string) error {
	heads, known, _ := strings.Cut(answer, ";")
	got, wanted := strings.Fields(heads), strings.Fields(hgtest.JoinNodes(w.heads))
	for _, n := range wanted {
		if !slices.Contains(got, n) && len(wanted) < 100 {
			return fmt.Errorf("head %s is not among %d heads", n, len(got))
		}
	}
	if known != strings.Repeat("1", len(w.common)) {
		return fmt.Errorf("known is %.80q for %d nodes", known, len(w.common))
	}
	return nil
}

func (w want) getbundle(ctx context.Context, c *client) (check func() error, err error) {
	args := hgtest.Args{"bookmarks": "1", "bundlecaps": clientCaps + "%0Abench%3D" + w.unlike, "cg": "1", "listkeys": "bookmarks", "phases": "1",
		"common": hgtest.JoinNodes(w.common), "heads": hgtest.JoinNodes(w.heads)}
	if len(w.common) == 0 {
		args["common"] = hg.NullNode.String()
	}
	switch {
	case w.stream:
		args["stream"], args["cg"] = "1", "0"
		delete(args, "phases")
	case w.changesets == 0:
		args["cg"] = "0"
	}
	a, err := c.call(ctx, "getbundle", args)
	if err != nil {
		return nil, err
	}
	return func() error { return w.check(a) }, nil
}

// check decodes an answer to getbundle and compares what it holds.
func (w want) check(a *hgtest.Answer) error {
	data, err := a.Payload()
	if err != nil {
		return fmt.Errorf("getbundle: %w; %d bytes of %s: %.40q", err, len(a.Body), a.Header.Get("Content-Type"), a.Body)
	}
	parts, err := hgtest.ParseBundle2(data)
	if err != nil {
		return fmt.Errorf("getbundle: %w", err)
	}
	changesets, streams, bookmarks := 0, 0, -1
	for _, p := range parts {
		switch strings.ToLower(p.Type) {
		case "changegroup":
			n, err := countChangesets(p.Payload)
			if err != nil {
				return err
			}
			changesets += n
		case "stream2":
			if err := checkStream(&p); err != nil {
				return err
			}
			streams++
		case "listkeys":
			if ns, _ := p.Param("namespace"); ns == "bookmarks" {
				bookmarks = strings.Count(string(p.Payload), "\t")
			}
		case "bookmarks":
			bookmarks = w.bookmarks // in binary, told by its length
			if len(p.Payload) < w.bookmarks*(hg.NodeLen+3) {
				return fmt.Errorf("%d bytes for %d bookmarks", len(p.Payload), w.bookmarks)
			}
		}
	}
	switch {
	case w.stream && streams != 1:
		return fmt.Errorf("%d streams", streams)
	case !w.stream && changesets != w.changesets:
		return fmt.Errorf("%d changesets, want %d", changesets, w.changesets)
	case bookmarks >= 0 && bookmarks != w.bookmarks || w.bookmarks > 0 && bookmarks < 0:
		return fmt.Errorf("%d bookmarks, want %d", bookmarks, w.bookmarks)
	}
	return nil
}
