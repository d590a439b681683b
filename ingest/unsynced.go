package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"vcsd/internal/vfs"
	"vcsd/journal"
)

// Of the processes that serve a repository one at a time syncs its store.
const (
	// syncLock is locked by the one that does.
	syncLock = vcsdDir + "/sync.lock"
	// unsyncedFile stands from the moment when a sync of the store begins until
	// the checkpoint is written, and names the run of the machine. Who finds it
	// with syncLock free knows that a sync failed or was not seen to end. It is
	// not synced: a reboot makes all after the checkpoint be applied anew.
	unsyncedFile = vcsdDir + "/unsynced"
)

// lockWaitStep is how often the lock of a sync elsewhere is tried.
const lockWaitStep = 20 * time.Millisecond

// lockSync takes syncLock. The caller closes the result.
func (p *Pipeline) lockSync(ctx context.Context) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.LockWait)
	defer cancel()
	for {
		l, err := p.fs.Lock(syncLock)
		if !errors.Is(err, vfs.ErrLocked) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another process syncs the store: %w", ctx.Err())
		case <-time.After(lockWaitStep):
		}
	}
}

// begunSync reports whether a sync was begun that did not come to its end. The
// caller holds syncLock.
func (p *Pipeline) begunSync() (bool, error) {
	b, err := vfs.ReadFile(p.fs, unsyncedFile, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return strings.TrimSpace(string(b)) == p.bootID, err
}

func (p *Pipeline) beginSync() error {
	return vfs.WriteAtomic(p.fs, unsyncedFile, []byte(p.bootID+"\n"), false)
}

func (p *Pipeline) endSync() error { return p.fs.Remove(unsyncedFile) }

// errSyncBegun is what a checkpoint meets that finds a sync begun by a process
// that is gone, or that gave up.
var errSyncBegun = errors.New("an earlier sync of the store did not come to its end")

// finishSync does again what a sync was to do that did not come to its end, if
// there was one: up to the tip, the records after the checkpoint are written once
// more and synced. While another process is in its sync there is nothing to do.
// The caller holds the store's lock.
//
// Order: write what the sync may have lost, sync it, write the checkpoint, remove
// unsyncedFile.
func (p *Pipeline) finishSync(ctx context.Context, tip journal.ID) (err error) {
	lock, err := p.fs.Lock(syncLock)
	if errors.Is(err, vfs.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	begun, err := p.begunSync()
	if err != nil || !begun {
		return err
	}
	p.log.WarnContext(ctx, "records are written again, as a sync did not come to its end", "seq", tip.Seq)
	touched, err := p.refresh(tip)
	if err != nil {
		return err
	}
	if err := p.sync(ctx, touched); err != nil {
		return err
	}
	if err := p.moveApplied(tip); err != nil {
		return err
	}
	return p.endSync()
}

// refresh writes again what the store holds of the records after the checkpoint,
// and returns what is to be synced then.
func (p *Pipeline) refresh(tip journal.ID) (*journal.Touched, error) {
	applied, _, err := journal.ReadApplied(p.fs, appliedFile)
	if err != nil {
		return nil, err
	}
	ids, err := p.history(applied, tip)
	if err != nil {
		return nil, err
	}
	all := journal.NewTouched()
	for _, id := range ids {
		rec, err := p.journal.Get(id.Seq, id.Digest)
		if err != nil {
			return nil, err
		}
		touched, err := p.journal.Refresh(rec, p.fs)
		if err != nil {
			return nil, err
		}
		all.Merge(touched)
	}
	return all, nil
}

// sync syncs what was touched. A sync that failed is final: nothing is published
// after it (I8), and unsyncedFile tells other processes.
func (p *Pipeline) sync(ctx context.Context, touched *journal.Touched) error {
	err := journal.SyncTouched(ctx, p.fs, touched)
	var sync *journal.SyncError
	if errors.As(err, &sync) {
		return p.fail(errors.Join(err, p.beginSync()))
	}
	return err
}
