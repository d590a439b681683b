package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"vcsd/internal/vfs"
)

// What a transaction of hg writes down before it changes anything, relative to
// .hg. Whoever finds the journal with the store's lock free knows that hg was
// killed.
//
//	store/journal: lines of
//	    file, NUL, its length before in decimal
//	store/journal.backupfiles: "2", newline, then lines of
//	    location, NUL, file, NUL, copy of it, NUL, "0" or "1" for a cache
//
// A file may stand there more than once: the last line counts. One that was not
// there has length 0. The location is empty for the store, whose names are
// encoded on the disk, or "plain" for .hg. A copy goes back to its file; where
// one of the two names is empty, the other one is removed. Source: what hg
// writes, and what hg recover does with it.
const (
	abandonedName  = "store/journal"
	backupsName    = "store/journal.backupfiles"
	backupsVersion = "2\n"
	locationPlain  = "plain"
)

// HasAbandoned reports whether a transaction of hg is under way, or was when hg
// was killed.
func HasAbandoned(fsys vfs.FS) (bool, error) { return vfs.Exists(fsys, abandonedName) }

// RollBack takes back what a local hg wrote in a transaction in which it was
// killed, as hg recover does, and reports whether there was one. The caller holds
// the store's lock. fsys is rooted at .hg.
//
// Files that got longer are replaced by what they were, not cut: readers have
// them mapped. It may be repeated after a crash at any moment.
//
// Order: the files; their directories are synced; the journal is removed, and
// that synced; then what only the journal leads to.
func RollBack(fsys vfs.FS) (done bool, err error) {
	there, err := HasAbandoned(fsys)
	if !there || err != nil {
		return false, err
	}
	reqs, err := ReadRequirements(fsys)
	if err != nil {
		return false, err
	}
	b := &rollback{fs: fsys, enc: reqs.Encoder(), dirs: make(map[string]bool)}
	if err := b.run(); err != nil {
		return false, fmt.Errorf("roll back an abandoned transaction of hg: %w", err)
	}
	return true, nil
}

// A rollback belongs to one goroutine.
type rollback struct {
	fs   vfs.FS
	enc  Encoder
	dirs map[string]bool // in which something changed
	left []string        // to remove at the end
}

func (b *rollback) run() error {
	lengths, err := b.readLengths()
	if err != nil {
		return err
	}
	backups, err := b.readBackups()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(lengths)) {
		if err := b.shorten(name, lengths[name]); err != nil {
			return err
		}
	}
	for _, e := range backups {
		if err := b.restore(e); err != nil && !e.cache {
			return err
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(b.dirs)) {
		if err := b.fs.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return b.end()
}

// end removes the journal. The copies that it named are nobody's then.
func (b *rollback) end() error {
	if err := b.fs.Remove(abandonedName); err != nil {
		return err
	}
	if err := b.fs.SyncDir(vfs.Dir(abandonedName)); err != nil {
		return err
	}
	for _, name := range append(b.left, backupsName) {
		if err := removeIfThere(b.fs, name); err != nil {
			return err
		}
	}
	return nil
}

// storeName returns where hg keeps a file of the store, relative to .hg.
func (b *rollback) storeName(name string) (string, error) {
	if err := checkLocal(name); err != nil {
		return "", err
	}
	return path.Join("store", b.enc.Encode(name)), nil
}

// checkLocal refuses what leads out of a directory.
func checkLocal(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("name %q leads out of the repository", name)
		}
	}
	return nil
}

// readLengths reads how long the files were. A last line without an end is that
// of a file that hg had not written to yet.
func (b *rollback) readLengths() (map[string]int64, error) {
	text, err := vfs.ReadFile(b.fs, abandonedName, maxSmallFileBytes)
	if err != nil {
		return nil, err
	}
	lengths := make(map[string]int64)
	for line := range bytes.Lines(text) {
		whole, ended := strings.CutSuffix(string(line), "\n")
		if !ended {
			break
		}
		file, length, _ := strings.Cut(whole, "\x00")
		size, err := strconv.ParseUint(length, 10, 63)
		if err != nil {
			return nil, corrupt(abandonedName, fmt.Errorf("line %q", whole))
		}
		name, err := b.storeName(file)
		if err != nil {
			return nil, corrupt(abandonedName, err)
		}
		lengths[name] = int64(size)
	}
	return lengths, nil
}

// A backup is a line of the list of copies. Names are relative to .hg; one of
// them may be empty.
type backup struct {
	file, copy string
	cache      bool
}

func (b *rollback) readBackups() ([]backup, error) {
	text, err := vfs.ReadFile(b.fs, backupsName, maxSmallFileBytes)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rest, known := bytes.CutPrefix(text, []byte(backupsVersion))
	if !known {
		return nil, corrupt(backupsName, fmt.Errorf("version %.10q", text))
	}
	var backups []backup
	for line := range bytes.Lines(rest) {
		whole, ended := strings.CutSuffix(string(line), "\n")
		if !ended {
			break
		}
		e, err := b.parseBackup(strings.Split(whole, "\x00"))
		if err != nil {
			return nil, corrupt(backupsName, fmt.Errorf("line %q: %w", whole, err))
		}
		backups = append(backups, e)
	}
	return backups, nil
}

func (b *rollback) parseBackup(f []string) (e backup, err error) {
	if len(f) != 4 || f[1] == "" && f[2] == "" {
		return e, errors.New("want a location, two names and a digit")
	}
	e.cache = f[3] == "1"
	for i, to := range []*string{&e.file, &e.copy} {
		switch name := f[1+i]; {
		case name == "":
		case f[0] == "":
			*to, err = b.storeName(name)
		case f[0] == locationPlain:
			*to, err = name, checkLocal(name)
		default:
			err = fmt.Errorf("unknown location %q", f[0])
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// shorten makes a file as long as it was.
func (b *rollback) shorten(name string, size int64) error {
	info, err := b.fs.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && size == 0:
		return nil
	case err != nil:
		return err
	case size == 0:
		return b.remove(name)
	case info.Size == size:
		return nil
	case info.Size < size:
		return &CorruptError{name, fmt.Errorf("it has %d bytes, and had %d before the transaction", info.Size, size)}
	}
	return b.replace(name, name, size)
}

// restore puts a copy back, or removes what the transaction made.
func (b *rollback) restore(e backup) error {
	if e.file == "" || e.copy == "" {
		return b.remove(e.file + e.copy)
	}
	info, err := b.fs.Stat(e.copy)
	if err != nil {
		return err
	}
	if err := b.replace(e.file, e.copy, info.Size); err != nil {
		return err
	}
	b.left = append(b.left, e.copy)
	return nil
}

func (b *rollback) remove(name string) error {
	b.dirs[vfs.Dir(name)] = true
	return removeIfThere(b.fs, name)
}

// replace gives name the first size bytes of a file.
//
// Order: write them to a temporary file, sync it, rename it.
func (b *rollback) replace(name, from string, size int64) error {
	b.dirs[vfs.Dir(name)] = true
	tmp := vfs.TempName(name)
	err := b.copyTo(tmp, from, size)
	if err == nil {
		err = b.fs.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(b.fs, tmp))
	}
	return nil
}

func (b *rollback) copyTo(tmp, from string, size int64) (err error) {
	src, err := b.fs.Open(from)
	if err != nil {
		return err
	}
	defer src.Close() // read only
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := b.fs.Create(tmp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.CopyN(dst, src, size); err != nil {
		return err
	}
	if err := b.fs.Chmod(tmp, info.Mode.Perm()); err != nil {
		return err
	}
	return dst.Sync()
}
