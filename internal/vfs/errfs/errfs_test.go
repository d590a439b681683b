package errfs_test

import (
	"errors"
	"testing"

	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
)

var errInjected = errors.New("injected")

func TestFailNthFiresOnceForEachOperation(t *testing.T) {
	n := 0
	for ; ; n++ {
		mem := vfs.NewMem()
		fsys := errfs.FailNth(mem, n, errInjected)
		err := vfs.WriteAtomic(fsys, "f", []byte("x"), true)
		if !fsys.Fired() {
			if err != nil {
				t.Fatalf("nothing fired: err = %v", err)
			}
			break
		}
		if !errors.Is(err, errInjected) {
			t.Errorf("%s: err = %v, want the injected one", fsys.Where(), err)
		}
		if _, err := fsys.Stat(""); err != nil {
			t.Errorf("%s: the next operation failed too: %v", fsys.Where(), err)
		}
	}
	// create, write, sync, close, stat, rename, syncdir
	if n != 7 {
		t.Errorf("%d operations, want 7", n)
	}
}

func TestCutNthStopsEverything(t *testing.T) {
	mem := vfs.NewMem()
	fsys := errfs.CutNth(mem, 0, errfs.Rename)
	if err := vfs.WriteAtomic(fsys, "f", []byte("x"), true); !errors.Is(err, errfs.ErrPowerCut) {
		t.Fatalf("err = %v, want ErrPowerCut", err)
	}
	if _, err := fsys.Stat(""); !errors.Is(err, errfs.ErrPowerCut) {
		t.Errorf("after the cut: err = %v, want ErrPowerCut", err)
	}
	if got, err := mem.ReadDir(""); err != nil || len(got) != 1 {
		t.Errorf("the directory holds %v, %v; want the temporary file that could not be removed", got, err)
	}
}

func TestFailedWriteWritesHalf(t *testing.T) {
	mem := vfs.NewMem()
	fsys := errfs.FailNth(mem, 0, errInjected, errfs.Write)
	f, err := fsys.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.WriteAt([]byte("abcd"), 0); n != 2 || !errors.Is(err, errInjected) {
		t.Errorf("WriteAt = %d, %v; want 2 and the injected error", n, err)
	}
}
