package server

import (
	"errors"
	"io/fs"
	"path/filepath"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/store"
)

type initCmd struct {
	Dir string `arg:"" help:"Where to make the repository."`
}

// Run makes an empty repository as hg init does.
func (c *initCmd) Run(*streams) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	err = store.Init(vfs.NewOS(filepath.Join(dir, ".hg")))
	if errors.Is(err, fs.ErrExist) {
		return hg.Abortf("repository %s already exists", c.Dir)
	}
	return err
}
