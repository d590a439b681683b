package store

import (
	"errors"
	"slices"
	"strings"

	"vcsd/internal/vfs"
)

// InitFiles returns what "hg init" of version 6.3 makes in an empty .hg
// directory with its default configuration: files by name, and the directories
// among whose parents they are not.
func InitFiles() (files map[string]string, dirs []string) {
	store := []string{
		"dotencode", "fncache", "generaldelta", "revlog-compression-zstd", reqRevlogV1, "sparserevlog", reqStore,
	}
	return map[string]string{
		"requires":       reqShareSafe + "\n",
		"store/requires": strings.Join(store, "\n") + "\n",
		"00changelog.i":  oldLayoutGuard,
	}, []string{"cache", "store", "wcache"}
}

// oldLayoutGuard makes a Mercurial that knows of no store refuse the
// repository: to it this is a changelog of an unknown version.
const oldLayoutGuard = "\x00\x00\xff\xff dummy changelog to prevent using the old repo layout"

// Init makes an empty repository in the .hg directory that fsys is rooted at,
// and makes it durable. requires is written last: until it is there the
// directory is no repository. It fails with fs.ErrExist where one stands.
func Init(fsys vfs.FS) error {
	files, dirs := InitFiles()
	for _, d := range dirs {
		if err := fsys.MkdirAll(d); err != nil {
			return err
		}
	}
	for _, name := range []string{"00changelog.i", "store/requires", "requires"} {
		if err := createFile(fsys, name, files[name]); err != nil {
			return err
		}
	}
	for _, d := range slices.Concat(dirs, []string{""}) {
		if err := fsys.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

func createFile(fsys vfs.FS, name, data string) (err error) {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write([]byte(data)); err != nil {
		return err
	}
	return f.Sync()
}
