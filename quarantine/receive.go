package quarantine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"

	"lukechampine.com/blake3"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

const (
	firstBufBytes = 32 << 10
	// BLAKE3 is several times faster when it is fed this much at once.
	bigBufBytes = 1 << 20
)

var bigBufs = sync.Pool{New: func() any { return new([bigBufBytes]byte) }}

// Receive reads a payload to its end and returns its directory, which the
// caller must Release. A payload over Options.MaxBytes is hg.ErrTooLarge, one
// for which there is no room in the quota hg.ErrUnavailable, both before the
// bytes in excess are written. After any error nothing of it is left.
func (a *Area) Receive(ctx context.Context, r io.Reader) (_ *Dir, err error) {
	tmp := path.Join(a.dir, a.newName("in-"))
	in := &intake{a: a, hash: blake3.New(32, nil)}
	defer func() {
		if err != nil {
			a.held.Add(-in.size)
			err = fmt.Errorf("receive payload: %w", errors.Join(err, a.fs.RemoveAll(tmp)))
		}
	}()
	if err := a.fs.MkdirAll(tmp); err != nil {
		return nil, err
	}
	if err := in.spool(ctx, path.Join(tmp, payloadName), r); err != nil {
		return nil, err
	}
	return a.settle(tmp, Digest(in.hash.Sum(nil)), in.size)
}

// intake is a payload that is being received.
type intake struct {
	a    *Area
	f    vfs.File
	hash *blake3.Hasher
	size int64 // held by the payload
}

func (in *intake) spool(ctx context.Context, name string, r io.Reader) (err error) {
	in.f, err = in.a.fs.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.f.Close()) }()
	done, err := in.fill(ctx, r, make([]byte, firstBufBytes))
	if done || err != nil {
		return err
	}
	big := bigBufs.Get().(*[bigBufBytes]byte)
	defer bigBufs.Put(big)
	for !done && err == nil {
		done, err = in.fill(ctx, r, big[:])
	}
	return err
}

// fill reads one buffer of the payload and puts it away.
func (in *intake) fill(ctx context.Context, r io.Reader, buf []byte) (done bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	n, err := io.ReadFull(r, buf)
	done = err == io.EOF || err == io.ErrUnexpectedEOF
	if err != nil && !done {
		return false, err
	}
	return done, in.put(buf[:n])
}

func (in *intake) put(b []byte) error {
	n := int64(len(b))
	if limit := in.a.o.MaxBytes; limit > 0 && in.size+n > limit {
		return fmt.Errorf("payload of more than %d bytes: %w", limit, hg.ErrTooLarge)
	}
	if err := in.a.hold(n); err != nil {
		return err
	}
	at := in.size
	in.size += n
	if _, err := in.f.WriteAt(b, at); err != nil {
		return err
	}
	in.hash.Write(b)
	return nil
}

// settle gives a received payload its place, or joins an equal one.
func (a *Area) settle(tmp string, d Digest, size int64) (*Dir, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, hg.ErrUnavailable
	}
	if e := a.entries[d]; e != nil {
		if err := a.fs.RemoveAll(tmp); err != nil {
			return nil, err
		}
		a.held.Add(-size)
		e.refs++
		return &Dir{e: e}, nil
	}
	e := &entry{a: a, digest: d, size: size, refs: 1, path: path.Join(a.dir, d.String())}
	if err := a.fs.Rename(tmp, e.path); err != nil {
		return nil, err
	}
	e.held.Store(size)
	a.entries[d] = e
	return &Dir{e: e}, nil
}
