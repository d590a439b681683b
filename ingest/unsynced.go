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
	// the checkpoint is written. Its first line names the run of the machine, the
	// others the files to be synced that no record has, as another program wrote
	// them. Who finds it with syncLock free knows that a sync failed or was not
	// seen to end. It is not synced: a reboot makes all after the checkpoint be
	// applied anew.
	unsyncedFile     = vcsdDir + "/unsynced"
	maxUnsyncedBytes = 1 << 30
)

const (
	// lockWaitStep is how often the lock of a sync elsewhere is tried.
	lockWaitStep = 20 * time.Millisecond
	// closeWait is how long it is waited for at the end. What is not synced then
	// is applied again when the repository is opened.
	closeWait = time.Second
)

// lockSync takes syncLock. The caller closes the result.
func (p *Pipeline) lockSync(ctx context.Context) (io.Closer, error) {
	wait := p.limits.LockWait
	if p.closing.Load() {
		wait = min(wait, closeWait)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
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

// begunSync reports whether a sync was begun that did not come to its end, and
// which files of other programs it was to sync. Without syncLock one that is under
// way looks the same.
func (p *Pipeline) begunSync() (begun bool, outside []string, err error) {
	b, err := vfs.ReadFile(p.fs, unsyncedFile, maxUnsyncedBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	return lines[0] == p.bootID, lines[1:], err
}

func (p *Pipeline) beginSync(outside []string) error {
	lines := strings.Join(append([]string{p.bootID}, outside...), "\n")
	return vfs.WriteAtomic(p.fs, unsyncedFile, []byte(lines+"\n"), false)
}

func (p *Pipeline) endSync() error { return p.fs.Remove(unsyncedFile) }

// errSyncBegun is what a sync meets that finds another one begun by a process
// that is gone, or that gave up.
var errSyncBegun = errors.New("an earlier sync of the store did not come to its end")

// syncAlone syncs what was touched, with the files among it that other programs
// wrote, and then calls after, unless it is nil.
//
// Order: unsyncedFile is made; the files and directories are synced; after is
// called; unsyncedFile is removed.
func (p *Pipeline) syncAlone(ctx context.Context, touched *journal.Touched, outside []string, after func() error) (err error) {
	if err := p.failure(); err != nil {
		return err // after a failed sync another one proves nothing
	}
	lock, err := p.lockSync(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	begun, _, err := p.begunSync()
	if err != nil {
		return err
	}
	if begun {
		p.fallBehind()
		return errSyncBegun
	}
	if err := p.beginSync(outside); err != nil {
		return err
	}
	if err := p.sync(ctx, touched); err != nil {
		if p.failure() == nil {
			err = errors.Join(err, p.endSync())
		}
		return err
	}
	if after != nil {
		if err := after(); err != nil {
			return err
		}
	}
	return p.endSync()
}

// finishedFirst calls sync, and if that meets an earlier sync that did not come
// to its end, finishes that one and calls it again. The caller holds the store's
// lock.
func (p *Pipeline) finishedFirst(ctx context.Context, tip journal.ID, sync func() error) error {
	err := sync()
	if !errors.Is(err, errSyncBegun) {
		return err
	}
	if err := p.finishSync(ctx, tip); err != nil {
		return err
	}
	return sync()
}

// finishSync does again what a sync was to do that did not come to its end, if
// there was one: up to the tip, the records after the checkpoint are written once
// more and synced, and so are the files of other programs. While another process
// is in its sync there is nothing to do. The caller holds the store's lock.
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
	begun, outside, err := p.begunSync()
	if err != nil || !begun {
		return err
	}
	p.log.WarnContext(ctx, "records are written again, as a sync did not come to its end", "seq", tip.Seq)
	touched, err := p.refresh(tip)
	if err != nil {
		return err
	}
	if err := journal.RefreshFiles(p.fs, outside); err != nil {
		return err
	}
	touched.Merge(journal.TouchedFiles(outside...))
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
// after it (I8), and unsyncedFile, which stands, tells other processes.
func (p *Pipeline) sync(ctx context.Context, touched *journal.Touched) error {
	err := journal.SyncTouched(ctx, p.fs, touched)
	var sync *journal.SyncError
	if errors.As(err, &sync) {
		return p.fail(err)
	}
	return err
}
