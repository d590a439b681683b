package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// What a dirstate file begins with. Version 1: both parents. Version 2, the
// docket: a line, then both parents in fields of 32 bytes.
const (
	dirstateV2Mark     = "dirstate-v2\n"
	dirstateV2NodeSize = 32
)

// WorkingParents returns the parents of the working copy beside a repository,
// none if it has no changeset checked out. fsys is rooted at .hg.
func WorkingParents(fsys vfs.FS) (parents []hg.Node, err error) {
	f, err := fsys.Open("dirstate")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var head [len(dirstateV2Mark) + 2*dirstateV2NodeSize]byte
	n, err := f.Read(head[:])
	if err != nil && n == 0 {
		return nil, nil // empty, as hg leaves it at times
	}
	b, err := parseDirstateParents(head[:n])
	if err != nil {
		return nil, corrupt("dirstate", err)
	}
	for _, p := range b {
		if !p.IsNull() {
			parents = append(parents, p)
		}
	}
	return parents, nil
}

func parseDirstateParents(b []byte) (p [2]hg.Node, err error) {
	step := hg.NodeLen
	if rest, ok := bytes.CutPrefix(b, []byte(dirstateV2Mark)); ok {
		b, step = rest, dirstateV2NodeSize
	}
	if len(b) < step+hg.NodeLen {
		return p, fmt.Errorf("dirstate of %d bytes: %w", len(b), hg.ErrMalformed)
	}
	return [2]hg.Node{hg.Node(b[:hg.NodeLen]), hg.Node(b[step : step+hg.NodeLen])}, nil
}
