package outgoing

import (
	"vcsd/hg"
	"vcsd/revlog"
)

// lanes reads the texts of a log's revisions, ascending, where lines of
// development alternate: each text is built on the one that its delta is against
// if that is the last of a lane. One Reader would go back along the chain at each
// change from line to line. It belongs to one goroutine.
type lanes struct {
	s   *revlog.Snapshot
	all []lane // the one used last is last
}

// A lane is a Reader with the revision it read last, whose text it keeps.
type lane struct {
	read  *revlog.Reader
	rev   hg.Rev
	bytes int // of the text
}

// The texts that lanes keep are so many at most, and more than one only up to so
// many bytes together.
const (
	maxLanes     = 8
	maxLaneBytes = 4 << 20
)

// text is as Reader.Text.
func (l *lanes) text(r hg.Rev) ([]byte, error) {
	next := l.take(l.s.DeltaBase(r))
	text, err := next.read.Text(r)
	if err != nil {
		return nil, err
	}
	next.rev, next.bytes = r, len(text)
	l.all = append(l.all, next)
	l.shrink()
	return text, nil
}

// take removes the lane that stands at a revision, or makes one.
func (l *lanes) take(at hg.Rev) lane {
	for i, c := range l.all {
		if c.rev == at {
			l.all = append(l.all[:i], l.all[i+1:]...)
			return c
		}
	}
	return lane{read: l.s.Reader(0)}
}

// shrink drops the lanes that were used longest ago.
func (l *lanes) shrink() {
	sum, keep := 0, len(l.all)
	for keep > 0 {
		sum += l.all[keep-1].bytes
		if n := len(l.all) - keep; n > 0 && (n == maxLanes || sum > maxLaneBytes) {
			break
		}
		keep--
	}
	l.all = append(l.all[:0], l.all[keep:]...)
}
