package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"vcsd/internal/vfs"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// tree lists files and contents.
func tree(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, e := range must(fsys.ReadDir(dir)) {
		name := strings.TrimPrefix(dir+"/"+e.Name(), "/")
		if e.IsDir() {
			b.WriteString(name + "/ " + tree(t, fsys, name))
			continue
		}
		fmt.Fprintf(&b, "%s=%q ", name, must(vfs.ReadFile(fsys, name, 1<<20)))
	}
	return b.String()
}

func TestCrashWithoutLuck(t *testing.T) {
	tests := []struct {
		name string
		do   func(m *vfs.Mem) error
		want string
	}{
		{"nothing synced", func(m *vfs.Mem) error {
			return vfs.WriteAtomic(m, "f", []byte("x"), false)
		}, ""},
		{"name without bytes", func(m *vfs.Mem) error {
			return errors.Join(vfs.WriteAtomic(m, "f", []byte("x"), false), m.SyncDir(""))
		}, `f="" `},
		{"both", func(m *vfs.Mem) error {
			return vfs.WriteAtomic(m, "f", []byte("x"), true)
		}, `f="x" `},
		{"second write lost", func(m *vfs.Mem) error {
			return errors.Join(vfs.WriteAtomic(m, "f", []byte("x"), true), vfs.WriteAtomic(m, "f", []byte("y"), false))
		}, `f="x" `},
		{"directory unknown to its parent", func(m *vfs.Mem) error {
			return errors.Join(m.MkdirAll("d"), vfs.WriteAtomic(m, "d/f", []byte("x"), true))
		}, ""},
		{"directory made durably", func(m *vfs.Mem) error {
			return errors.Join(vfs.MkdirAllSync(m, "d/e"), vfs.WriteAtomic(m, "d/e/f", []byte("x"), true))
		}, `d/ d/e/ d/e/f="x" `},
		{"removal not durable", func(m *vfs.Mem) error {
			return errors.Join(vfs.WriteAtomic(m, "f", []byte("x"), true), m.Remove("f"))
		}, `f="x" `},
		{"removal durable", func(m *vfs.Mem) error {
			return errors.Join(vfs.WriteAtomic(m, "f", []byte("x"), true), m.Remove("f"), m.SyncDir(""))
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := vfs.NewMem()
			mustDo(t, tt.do(m))
			if got := tree(t, m.Crash(nil), ""); got != tt.want {
				t.Errorf("after the crash: %s, want %s", got, tt.want)
			}
		})
	}
}

func TestCrashIsSeeded(t *testing.T) {
	m := vfs.NewMem()
	for i := range 20 {
		mustDo(t, vfs.WriteAtomic(m, fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 500*i), i%3 == 0))
	}
	outcomes := make(map[string]bool)
	for seed := range uint64(20) {
		a, b := tree(t, m.Crash(rng(seed)), ""), tree(t, m.Crash(rng(seed)), "")
		if a != b {
			t.Errorf("seed %d: two crashes differ", seed)
		}
		outcomes[a] = true
	}
	if len(outcomes) < 5 {
		t.Errorf("20 seeds gave %d outcomes, want more", len(outcomes))
	}
}

func TestCrashKeepsOldOrNewName(t *testing.T) {
	m := vfs.NewMem()
	mustDo(t, vfs.WriteAtomic(m, "f", []byte("old"), true))
	f := must(m.Create("tmp"))
	mustDo(t, writeAt(f, "new", 0))
	mustDo(t, f.Sync())
	mustDo(t, m.Rename("tmp", "f"))
	seen := make(map[string]bool)
	for seed := range uint64(200) {
		got := string(must(vfs.ReadFile(m.Crash(rng(seed)), "f", 10)))
		if got != "old" && got != "new" {
			t.Fatalf("seed %d: f = %q, want old or new", seed, got)
		}
		seen[got] = true
	}
	if len(seen) != 2 {
		t.Errorf("200 crashes gave %v, want both", seen)
	}
}

func TestCrashTearsUnsyncedBytesOnly(t *testing.T) {
	m := vfs.NewMem()
	mustDo(t, vfs.WriteAtomic(m, "f", bytes.Repeat([]byte{'a'}, 10000), true))
	f := must(m.OpenWrite("f"))
	mustDo(t, writeAt(f, strings.Repeat("b", 20000), 10000))
	torn := 0
	for seed := range uint64(100) {
		got := must(vfs.ReadFile(m.Crash(rng(seed)), "f", 1<<20))
		if n := bytes.Count(got[:10000], []byte{'a'}); n != 10000 {
			t.Fatalf("seed %d: %d synced bytes are left, want 10000", seed, n)
		}
		tail := got[10000:]
		b, zero := bytes.Count(tail, []byte{'b'}), bytes.Count(tail, []byte{0})
		if b+zero != len(tail) {
			t.Fatalf("seed %d: %d written, %d zero of %d bytes", seed, b, zero, len(tail))
		}
		if b > 0 && zero > 0 {
			torn++
		}
	}
	if torn == 0 {
		t.Error("no crash tore the file")
	}
}

func TestFailedSyncIsFinal(t *testing.T) {
	m := vfs.NewMem()
	mustDo(t, vfs.WriteAtomic(m, "f", nil, true))
	f := must(m.OpenWrite("f"))
	mustDo(t, writeAt(f, "x", 0))
	f.(interface{ FailSync() }).FailSync()
	mustDo(t, f.Sync())
	if got := string(must(vfs.ReadFile(m.Crash(nil), "f", 10))); got == "x" {
		t.Errorf("a sync after the failed one saved the bytes")
	}
	mustDo(t, writeAt(f, "x", 0))
	mustDo(t, f.Sync())
	if got := string(must(vfs.ReadFile(m.Crash(nil), "f", 10))); got != "x" {
		t.Errorf("f = %q, want x once written again", got)
	}
}

func TestCapacity(t *testing.T) {
	m := vfs.NewMem()
	m.SetCapacity(100)
	f := must(m.Create("f"))
	mustDo(t, f.Reserve(60))
	g := must(m.Create("g"))
	if err := writeAt(g, strings.Repeat("x", 50), 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write beyond the capacity: err = %v, want ENOSPC", err)
	}
	mustDo(t, writeAt(f, strings.Repeat("x", 60), 0))
	if got := must(m.Free("")); got != 40 {
		t.Errorf("free = %d, want 40", got)
	}
	mustDo(t, m.Remove("f"))
	if got := must(m.Free("")); got != 100 {
		t.Errorf("free after the removal = %d, want 100", got)
	}
}

func TestKillReleasesLocks(t *testing.T) {
	m := vfs.NewMem()
	dead := must(m.Lock("lock"))
	m.Kill()
	alive := must(m.Lock("lock"))
	mustDo(t, dead.Close())
	if _, err := m.Lock("lock"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("lock: err = %v, want ErrLocked: the dead holder released another's", err)
	}
	mustDo(t, alive.Close())
}

func TestMemMapFaultsBeyondEnd(t *testing.T) {
	m := vfs.NewMem()
	f := must(m.Create("f"))
	mustDo(t, writeAt(f, "x", 0))
	mp := must(f.Map(1 << 20))
	defer mp.Close()
	var sum byte
	if err := vfs.Guard(func() { sum += mp.Bytes()[1<<19] }); err == nil {
		t.Errorf("read beyond the end gave %d, want a fault", sum)
	}
}
