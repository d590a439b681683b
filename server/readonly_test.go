package server

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"vcsd/hg"
	"vcsd/wire"
)

// Clients are told that a repository takes no pushes, and not why; unless what
// keeps it from that has a sentence for them.
func TestReadOnlyReason(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  string
	}{
		{errors.New("dial etcd at 10.1.2.3: refused"), hg.ErrUnavailable.Error()},
		{fs.ErrPermission, hg.ErrReadOnly.Error()},
		{&fs.PathError{Op: "mkdir", Path: "vcsd", Err: syscall.EROFS}, hg.ErrReadOnly.Error()},
		{hg.Abortf("strip it"), "strip it"},
	} {
		err := readOnlyReason(tt.cause)
		if got, _, known := wire.Explain(err); got != tt.want || !known || !errors.Is(err, hg.ErrReadOnly) && !errors.Is(err, tt.cause) {
			t.Errorf("%v is told as %q (known: %v), want %q", tt.cause, got, known, tt.want)
		}
	}
}
