package verify

import (
	"errors"
	"fmt"
	"io/fs"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/revlog"
)

// A log is a revlog that is being checked.
type log struct {
	v           *verifier
	path        string // in the working copy; empty for changelog and manifest
	radix       string // relative to .hg, as the files' names
	index, data string
	mapped      bool

	log  *revlog.Log
	snap *revlog.Snapshot // nil until it is open

	ends       hg.Rev // so many changesets were there after the log was opened
	endsSurely bool   // and nobody adds any

	dangling      int // revisions that point to changesets which are not there
	firstDangling hg.Rev
}

func (l *log) options() revlog.Options {
	return revlog.Options{Mapped: l.mapped, DataName: l.data, Inline: true}
}

// open opens the log, or reports why it can't be.
func (l *log) open() bool {
	// A reader may meet a log whose files are being replaced.
	var last error
	ok, err := l.v.settle(func() (bool, error) {
		l.log, last = revlog.Open(l.v.fs, l.radix, l.options())
		return last == nil, nil
	})
	if err != nil {
		last = err
	}
	if !ok {
		l.reportErr(hg.NullRev, last)
		return false
	}
	l.snap = l.log.Snapshot()
	return true
}

func (l *log) close() {
	if l == nil || l.snap == nil {
		return
	}
	l.snap.Close()
	_ = l.log.Close() // read only
}

// checkIndex checks the index as far as that needs no text, and the lengths of
// the files.
func (l *log) checkIndex() error {
	err := l.snap.Check(func(c *revlog.CorruptError) { l.reportErr(c.Rev, c) })
	if err != nil {
		return err
	}
	problem, file, err := l.sizeProblem(l.snap.Size())
	if err != nil || problem == "" {
		return err
	}
	ok, err := l.v.settle(func() (bool, error) {
		now, err := revlog.Open(l.v.fs, l.radix, l.options())
		if err != nil {
			return false, nil
		}
		defer now.Close() // read only
		s := now.Snapshot()
		defer s.Close()
		problem, file, err = l.sizeProblem(s.Size())
		return problem == "", err
	})
	if err != nil || ok {
		return err
	}
	l.v.report(Finding{File: file, Path: l.path, Rev: hg.NullRev, Problem: problem, Remedy: remedyRestore})
	return nil
}

// sizeProblem compares the lengths of the files with what the index says.
func (l *log) sizeProblem(want revlog.Size) (problem, file string, err error) {
	got, err := fileSize(l.v.fs, l.index)
	if err != nil {
		return "", "", err
	}
	if got != want.IndexBytes {
		return fmt.Sprintf("it ends with %d bytes that are no whole revision", got-want.IndexBytes), l.index, nil
	}
	if want.Inline {
		return "", "", nil
	}
	if got, err = fileSize(l.v.fs, l.data); err != nil {
		return "", "", err
	}
	if got != want.DataBytes {
		return fmt.Sprintf("it has %d bytes, and its index says %d", got, want.DataBytes), l.data, nil
	}
	return "", "", nil
}

// fileSize returns the length of a file; that of one that is missing is 0.
func fileSize(fsys vfs.FS, name string) (int64, error) {
	info, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return info.Size, err
}

// text reads a revision and reports what is wrong with it.
func (l *log) text(rd *revlog.Reader, rev hg.Rev) (text []byte, ok bool) {
	text, err := rd.Text(rev)
	if err != nil {
		l.reportErr(rev, err)
		return nil, false
	}
	l.v.counts.Bytes += int64(len(text))
	return text, true
}

// links tells whether a linkrev of the log is one of a changeset that is looked
// at. One of a later push is none; one that leads nowhere is told by
// reportDangling.
func (l *log) links(rev, link hg.Rev) (bool, error) {
	if link >= 0 && int(link) < l.v.n {
		return true, nil
	}
	if l.v.changelog == nil {
		return false, nil
	}
	if link >= l.ends && !l.endsSurely {
		later, err := l.v.settle(func() (bool, error) {
			l.ends = max(l.ends, l.v.changesetsNow())
			return link < l.ends, nil
		})
		if err != nil {
			return false, err
		}
		l.endsSurely = !later
	}
	if link < 0 || link >= l.ends {
		if l.dangling == 0 {
			l.firstDangling = rev
		}
		l.dangling++
	}
	return false, nil
}

// reportDangling reports the revisions that point to changesets which are not
// there.
func (l *log) reportDangling() {
	if l.dangling == 0 {
		return
	}
	more := ""
	if l.dangling > 1 {
		more = fmt.Sprintf(", as do %d further revisions", l.dangling-1)
	}
	l.report(l.firstDangling, remedyDangling, "it points to changeset %d, of which there is none%s", l.snap.LinkRev(l.firstDangling), more)
}

// changesetsNow returns how many changesets there are by now.
func (v *verifier) changesetsNow() (n hg.Rev) {
	v.changelogNow(func(s *revlog.Snapshot) { n = hg.Rev(s.Len()) })
	return n
}

// withChangelogNow calls f with what tells which changesets there are by now.
func (v *verifier) withChangelogNow(f func(has hasNode)) {
	v.changelogNow(func(s *revlog.Snapshot) {
		f(func(n hg.Node) bool { _, ok := s.Rev(n); return ok })
	})
}

// changelogNow calls f with the changelog as it is by now, unless it can't be
// read: that has been reported.
func (v *verifier) changelogNow(f func(*revlog.Snapshot)) {
	if v.changelog == nil {
		return
	}
	now, err := revlog.Open(v.fs, v.changelog.radix, revlog.Options{Mapped: true})
	if err != nil {
		return
	}
	defer now.Close() // read only
	s := now.Snapshot()
	defer s.Close()
	f(s)
}
