package powerdisk

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// A Disk is a mounted file system whose power can be cut.
type Disk struct {
	// Dir is where it is mounted.
	Dir string

	file    *file
	fuse    *fuse.Server
	fuseDir string
	loop    string // the device
}

// Mount mounts a disk with this content. It is unmounted when the test ends, if
// that was not done before. Where this can't be done the test is skipped.
func Mount(t testing.TB, c Content) *Disk {
	t.Helper()
	need(t)
	d := &Disk{Dir: t.TempDir(), fuseDir: t.TempDir(), file: &file{now: maps.Clone(c.pages), flushed: maps.Clone(c.pages)}}
	var err error
	d.fuse, err = fs.Mount(d.fuseDir, &dir{file: d.file}, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "powerdisk"}})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := d.Unmount(); err != nil {
			t.Error(err)
		}
	})
	if d.loop, err = run("losetup", "--find", "--show", filepath.Join(d.fuseDir, fileName)); err != nil {
		t.Skip(err)
	}
	if _, err := run("mount", "-t", "ext4", d.loop, d.Dir); err != nil {
		t.Fatal(err)
	}
	return d
}

// need skips the test where a disk can't be made.
func need(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting takes root")
	}
	for _, name := range []string{"/dev/fuse", "/dev/loop-control"} {
		if _, err := os.Stat(name); err != nil {
			t.Skip(err)
		}
	}
	for _, name := range []string{"mkfs.ext4", "losetup", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
}

func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Cut returns what would be left if the power went now. The disk itself goes on.
func (d *Disk) Cut(rng *rand.Rand) Content {
	d.file.mu.Lock()
	defer d.file.mu.Unlock()
	return cut(d.file.flushed, d.file.pending, rng)
}

// Unmount ends the disk. Nobody may use it any more.
func (d *Disk) Unmount() error {
	if d.fuse == nil {
		return nil
	}
	if d.loop != "" {
		if mounted(d.Dir) {
			if _, err := run("umount", d.Dir); err != nil {
				return err
			}
		}
		if _, err := run("losetup", "--detach", d.loop); err != nil {
			return err
		}
	}
	err := d.fuse.Unmount()
	if err == nil {
		d.fuse = nil
	}
	return err
}

// mounted tells whether a file system is mounted at dir.
func mounted(dir string) bool {
	var at, above syscall.Stat_t
	return syscall.Stat(dir, &at) == nil && syscall.Stat(filepath.Dir(dir), &above) == nil && at.Dev != above.Dev
}

// fileName is the file of the FUSE file system that the loop device stands on.
const fileName = "disk"

// dir is the directory that holds it.
type dir struct {
	fs.Inode
	file *file
}

// OnAdd implements fs.NodeOnAdder.
func (d *dir) OnAdd(ctx context.Context) {
	d.AddChild(fileName, d.NewPersistentInode(ctx, d.file, fs.StableAttr{Mode: fuse.S_IFREG}), false)
}

// file is what the loop device writes to.
type file struct {
	fs.Inode

	mu      sync.Mutex
	now     pages   // what reads see; guarded by mu
	flushed pages   // as of the last flush; guarded by mu
	pending []write // since then; guarded by mu
}

var (
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
	_ fs.NodeWriter    = (*file)(nil)
	_ fs.NodeFsyncer   = (*file)(nil)
)

// Open implements fs.NodeOpener.
func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, fs.OK
}

// Getattr implements fs.NodeGetattrer.
func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o600, Size
	return fs.OK
}

// Setattr implements fs.NodeSetattrer.
func (f *file) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok && size != Size {
		return syscall.EPERM
	}
	return f.Getattr(ctx, h, out)
}

// Read implements fs.NodeReader.
func (f *file) Read(_ context.Context, _ fs.FileHandle, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b = b[:max(0, min(int64(len(b)), Size-off))]
	f.now.read(b, off)
	return fuse.ReadResultData(b), fs.OK
}

// Write implements fs.NodeWriter.
func (f *file) Write(_ context.Context, _ fs.FileHandle, b []byte, off int64) (uint32, syscall.Errno) {
	if off+int64(len(b)) > Size {
		return 0, syscall.ENOSPC
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now.write(b, off)
	f.pending = append(f.pending, write{append([]byte(nil), b...), off})
	return uint32(len(b)), fs.OK
}

// Fsync implements fs.NodeFsyncer: it is what a flush of the loop device becomes.
func (f *file) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.pending {
		f.flushed.write(w.data, w.off)
	}
	f.pending = nil
	return fs.OK
}
