package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"vcsd/bench/history"
	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/revlog"
)

// A repository is a history to measure with. Its directory is a master that is
// copied for each server and never served.
type repository struct {
	name      string
	dir       string
	bundle    string // file: all of it, an uncompressed bundle2 stream; may be missing
	bookmarks int

	nodes        []hg.Node
	parents      [][2]hg.Rev
	manifestNode hg.Node // of the last changeset
	manifest     []byte
}

// madeBy changes whenever histories come out differently, so that kept ones are
// made anew.
const madeBy = "2"

// prepare returns the repository of a name, which it makes unless it was kept.
// fill gets an empty directory for it and the name for a bundle.
func (b *bench) prepare(ctx context.Context, name string, fill func(dir, bundle string) error) (*repository, error) {
	home := filepath.Join(b.cache, name+"-"+madeBy)
	r := &repository{name: name, dir: filepath.Join(home, "repo"), bundle: filepath.Join(home, "bundle.hg")}
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		b.say("make history %s", name)
		tmp, err := os.MkdirTemp(b.cache, "tmp-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(tmp) // it is gone if all went well
		dir := filepath.Join(tmp, "repo")
		if err := fill(dir, filepath.Join(tmp, "bundle.hg")); err != nil {
			return nil, fmt.Errorf("make %s: %w", name, err)
		}
		if err := b.hg(ctx, dir, "debugupdatecaches"); err != nil {
			return nil, err
		}
		if err := os.Rename(tmp, home); err != nil {
			return nil, err
		}
	}
	return r, r.load()
}

// synthetic makes a repository of a bundle that write makes.
func (b *bench) synthetic(ctx context.Context, name string, write func(io.Writer) error) (*repository, error) {
	return b.prepare(ctx, name, func(dir, bundle string) error {
		if err := writeFile(bundle, write); err != nil {
			return err
		}
		if err := b.hg(ctx, "", "init", dir); err != nil {
			return err
		}
		if err := b.hg(ctx, dir, "unbundle", "-q", bundle); err != nil {
			return err
		}
		// As it would have been if it had been pushed to a server.
		return b.hg(ctx, dir, "phase", "-q", "--public", "-r", "all()")
	})
}

func (b *bench) woven(ctx context.Context, changesets int) (*repository, error) {
	w := history.Woven{Seed: 1, Changesets: changesets, Files: b.files, Lines: 4}
	return b.synthetic(ctx, fmt.Sprintf("woven-%d-files-%d", changesets, b.files), w.WriteBundle)
}

// given copies a repository that the user wants to measure with.
func (b *bench) given(ctx context.Context, path string) (*repository, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	id, err := exec.CommandContext(ctx, "hg", "-R", abs, "log", "-r", "tip", "-T", "{rev}-{node|short}").Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b.prepare(ctx, filepath.Base(abs)+"-"+string(id), func(dir, bundle string) error {
		if err := b.hg(ctx, "", "clone", "-q", "-U", "--pull", abs, dir); err != nil {
			return err
		}
		return b.hg(ctx, dir, "bundle", "-q", "-a", "-t", "none-v2", bundle)
	})
}

// load reads the changelog's graph and the last manifest.
func (r *repository) load() (err error) {
	store := vfs.NewOS(filepath.Join(r.dir, ".hg", "store"))
	log, err := revlog.Open(store, "00changelog", revlog.Options{Mapped: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	s := log.Snapshot()
	defer s.Close()
	for rev := range hg.Rev(s.Len()) {
		p1, p2 := s.Parents(rev)
		r.nodes = append(r.nodes, s.Node(rev))
		r.parents = append(r.parents, [2]hg.Rev{p1, p2})
	}
	if s.Len() == 0 {
		return fmt.Errorf("%s is empty", r.dir)
	}
	text, err := s.Text(hg.Rev(s.Len() - 1))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if r.manifestNode, err = hg.ParseNode(line); err != nil {
		return err
	}
	return r.loadManifest(store)
}

func (r *repository) loadManifest(store vfs.FS) (err error) {
	log, err := revlog.Open(store, "00manifest", revlog.Options{Mapped: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	s := log.Snapshot()
	defer s.Close()
	if rev, ok := s.Rev(r.manifestNode); ok {
		r.manifest, err = s.Text(rev)
	}
	return err
}

// heads returns the heads of the first n changesets.
func (r *repository) heads(n int) (nodes []hg.Node) {
	inner := make([]bool, n)
	for _, p := range r.parents[:n] {
		for _, q := range p {
			if q != hg.NullRev {
				inner[q] = true
			}
		}
	}
	for rev, is := range inner {
		if !is {
			nodes = append(nodes, r.nodes[rev])
		}
	}
	return nodes
}

// last is the pull of the last n changesets; n over all there are is a clone.
func (r *repository) last(n int) want {
	n = min(n, len(r.nodes))
	return want{heads: r.heads(len(r.nodes)), common: r.heads(len(r.nodes) - n), changesets: n, bookmarks: r.bookmarks}
}

// tip returns a tip to build upon the last changeset.
func (r *repository) tip(branch, path string) *history.Tip {
	return history.NewTip(r.nodes[len(r.nodes)-1], r.manifestNode, r.manifest, branch, path)
}

// hg runs hg in a directory.
func (b *bench) hg(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "hg", args...)
	cmd.Dir, cmd.Env = dir, hgtest.Env(b.work, os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("hg %.100s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// copyTo copies the master.
func (r *repository) copyTo(ctx context.Context, dir string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", r.dir, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", r.name, err, out)
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

func walkFiles(dir string, visit func(name string, info os.FileInfo)) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			visit(name, info)
		}
		return err
	})
}
