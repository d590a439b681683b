package server

import (
	"path/filepath"

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
	return store.Init(vfs.NewOS(dir))
}
