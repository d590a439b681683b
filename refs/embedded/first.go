package embedded

import (
	"errors"
	"path"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"vcsd/internal/vfs"
)

// newDataName is where data are made.
const newDataName = dataName + ".new"

// makeData makes the data of a single member, unless it has some. An etcd that
// dies while it makes them leaves data in which nobody has a vote; the next one
// would wait for ever to be elected. So they are made beside their place, while
// nobody can ask for anything, and put there when they are whole.
//
// Order: etcd has stopped and so synced its files; then their directories, then
// the rename, then that of the rename.
func (m *Member) makeData(closing *atomic.Bool) error {
	there, err := vfs.Exists(m.fs, dataName)
	if err != nil || there {
		return err
	}
	if err := m.fs.RemoveAll(newDataName); err != nil {
		return err
	}
	if err := m.makeNewData(closing); err != nil {
		return err
	}
	if err := m.syncDirs(newDataName); err != nil {
		return err
	}
	if err := m.fs.Rename(newDataName, dataName); err != nil {
		return err
	}
	return m.fs.SyncDir("")
}

func (m *Member) makeNewData(closing *atomic.Bool) error {
	cfg, err := m.config(closing)
	if err != nil {
		return err
	}
	cfg.Dir = filepath.Join(m.dir, newDataName)
	cfg.ListenClientUrls = nil
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	return m.untilReady(e)
}

// untilReady waits for etcd to have started.
func (m *Member) untilReady(e *embed.Etcd) error {
	select {
	case <-e.Server.ReadyNotify():
		return nil
	case err := <-e.Err():
		return err
	case <-time.After(readyTime):
		return errors.New("etcd was not ready in time")
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
}

// syncDirs syncs a directory and those below it.
func (m *Member) syncDirs(dir string) error {
	entries, err := m.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := m.syncDirs(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return m.fs.SyncDir(dir)
}
