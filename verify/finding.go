package verify

import (
	"errors"
	"fmt"
	"strings"

	"vcsd/hg"
	"vcsd/revlog"
)

// A Finding is one thing that is wrong.
type Finding struct {
	File    string  // relative to .hg
	Path    string  // of a filelog: its name in the working copy; else empty
	Rev     hg.Rev  // of that log; NullRev if the file as a whole is meant
	Node    hg.Node // of Rev, or one that is missing; NullNode if none is meant
	Problem string
	Remedy  string
}

func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Path != "" {
		fmt.Fprintf(&b, " of %q", f.Path)
	}
	switch {
	case f.Rev != hg.NullRev:
		fmt.Fprintf(&b, ": rev %d, %s", f.Rev, f.Node)
	case !f.Node.IsNull():
		fmt.Fprintf(&b, ": %s", f.Node)
	}
	fmt.Fprintf(&b, ": %s; remedy: %s", f.Problem, f.Remedy)
	return b.String()
}

// What may be done about findings.
const (
	remedyRestore  = "restore the file from a backup, or copy it from another node"
	remedyFNCache  = "hg debugrebuildfncache"
	remedyRecover  = "hg recover"
	remedyRefs     = "vcsd recover --rebuild-refs"
	remedyOpen     = "check the disk and the file's permissions"
	remedyCache    = "remove the file: it is made anew"
	remedyDangling = "hg recover if a transaction was abandoned; else restore the file from a backup, or copy it from another node"
	remedyMark     = "set it anew with hg bookmark, or remove its line"
	remedyRoot     = "remove its line, or restore the file from a backup or another node"
	remedyOrphan   = "none needed: hg and vcsd pass the file over"
)

// report passes a finding on.
func (v *verifier) report(f Finding) {
	v.counts.Findings++
	if v.o.Report != nil {
		v.o.Report(f)
	}
}

// reportFile reports what is wrong with a file as a whole.
func (v *verifier) reportFile(file, remedy, format string, args ...any) {
	v.report(Finding{File: file, Rev: hg.NullRev, Problem: fmt.Sprintf(format, args...), Remedy: remedy})
}

// reportErr reports why a file could not be read.
func (v *verifier) reportErr(file string, err error) {
	v.reportFile(file, remedyOpen, "it can't be read: %v", err)
}

// report reports what is wrong with a revision, or with NullRev a log.
func (l *log) report(rev hg.Rev, remedy, format string, args ...any) {
	f := Finding{File: l.index, Path: l.path, Rev: rev, Problem: fmt.Sprintf(format, args...), Remedy: remedy}
	if l.snap != nil {
		f.Node = l.snap.Node(rev)
	}
	l.v.report(f)
}

// reportErr reports an error of package revlog.
func (l *log) reportErr(rev hg.Rev, err error) {
	f := Finding{File: l.index, Path: l.path, Rev: rev, Problem: err.Error(), Remedy: remedyRestore}
	var corrupt *revlog.CorruptError
	var unsupported *revlog.UnsupportedError
	switch {
	case errors.As(err, &corrupt):
		f.File, f.Rev, f.Problem = corrupt.File, corrupt.Rev, corrupt.Err.Error()
		if f.Rev == hg.NullRev {
			f.Rev = rev
		}
	case errors.As(err, &unsupported):
		f.File, f.Rev, f.Problem = unsupported.File, unsupported.Rev, "unsupported "+unsupported.Feature
	default:
		f.Remedy = remedyOpen
	}
	if l.snap != nil && int(f.Rev) < l.snap.Len() {
		f.Node = l.snap.Node(f.Rev)
	}
	l.v.report(f)
}
