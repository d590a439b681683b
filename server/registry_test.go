package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"vcsd/config"
	"vcsd/internal/vfs"
	"vcsd/outgoing"
	"vcsd/refs"
	"vcsd/store"
)

// testConfigs are those of a server that was told nothing but items.
func testConfigs(t testing.TB, items ...config.Item) *configs {
	t.Helper()
	loader := config.NewLoader()
	loader.Getenv = func(key string) (string, bool) { return "", key == "HGRCPATH" }
	load := func() (*config.Config, error) { return loader.System(items...) }
	base, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return newConfigs(loader, base, load, slog.New(slog.DiscardHandler))
}

func testRegistry(t testing.TB, maxOpen int, idle time.Duration) *registry {
	t.Helper()
	client := refs.NewMemory().Client(refs.Options{Node: "test"})
	admit := newAdmission(64, 1000, time.Minute)
	filelogs, pulls := store.NewFilelogCache(1<<20), outgoing.NewPulls(0)
	g := newRegistry(process{
		refs: client, configs: testConfigs(t), log: slog.New(slog.DiscardHandler), filelogs: filelogs,
		admit: admit, counters: newCounters(filelogs, admit, pulls), pulls: pulls, node: "test", bootID: "boot",
		maxOpen: maxOpen, idleTime: idle,
	})
	t.Cleanup(func() {
		g.close()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// initRepos makes n empty repositories and returns their directories.
func initRepos(t testing.TB, n int) []string {
	t.Helper()
	top, dirs := t.TempDir(), make([]string, n)
	for i := range dirs {
		dirs[i] = filepath.Join(top, fmt.Sprint("r", i))
		if err := store.Init(vfs.NewOS(filepath.Join(dirs[i], ".hg"))); err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

func (g *registry) mustUse(t testing.TB, dir string) (*repository, func()) {
	t.Helper()
	r, release, err := g.use(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.pipeline == nil {
		t.Fatalf("%s takes no pushes: %v", dir, r.readOnly)
	}
	return r, release
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// However many repositories are asked for, only some stay open.
func TestManyRepositories(t *testing.T) {
	const repos, maxOpen = 120, 10
	dirs := initRepos(t, repos)
	g := testRegistry(t, maxOpen, time.Hour)
	before := descriptors(t)
	for _, dir := range dirs {
		_, release := g.mustUse(t, dir)
		release()
	}
	g.closing.Wait()
	if n := g.count(); n > maxOpen {
		t.Errorf("%d repositories are open, want at most %d", n, maxOpen)
	}
	perRepo := float64(descriptors(t)-before) / maxOpen
	t.Logf("%.1f descriptors for each open repository", perRepo)
	if perRepo > 10 {
		t.Errorf("%.1f descriptors for each open repository, want at most 10", perRepo)
	}
}

// One in use is never closed; one that was closed is opened again.
func TestIdleRepositoryIsClosed(t *testing.T) {
	dirs := initRepos(t, 2)
	g := testRegistry(t, 1, 20*time.Millisecond)
	used, release := g.mustUse(t, dirs[0])
	other, leave := g.mustUse(t, dirs[1])
	if g.count() != 2 {
		t.Fatalf("%d are open, want both that are in use", g.count())
	}
	leave()
	leave() // as a caller may that cleans up twice
	g.closing.Wait()
	if _, err := other.repo.View(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("one too many: view = %v, want that it is closed", err)
	}
	if _, err := used.repo.View(t.Context()); err != nil {
		t.Errorf("one in use: %v", err)
	}
	release()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); g.count() > 0; <-tick.C {
		if time.Now().After(end) {
			t.Fatal("an idle repository stays open")
		}
	}
	again, release := g.mustUse(t, dirs[0])
	defer release()
	if again == used {
		t.Error("a closed repository was handed out")
	}
}

// A repository is open once, however many come and go while it is closed and
// opened again.
func TestRepositoryIsOpenOnce(t *testing.T) {
	dirs := initRepos(t, 4)
	g := testRegistry(t, 1, time.Nanosecond)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for k := range 50 {
				r, release, err := g.use(context.Background(), dirs[(i+k)%len(dirs)])
				if err != nil {
					t.Error(err)
					return
				}
				if v, err := r.repo.View(context.Background()); err != nil {
					t.Errorf("view of a repository in use: %v", err)
				} else {
					v.Close()
				}
				release()
			}
		})
	}
	wg.Wait()
}

// A directory that was replaced is opened anew, and who uses the old one goes
// on.
func TestReplacedRepository(t *testing.T) {
	dirs := initRepos(t, 2)
	g := testRegistry(t, 10, time.Hour)
	old, release := g.mustUse(t, dirs[0])
	if err := errors.Join(os.Rename(dirs[0], dirs[0]+".old"), os.Rename(dirs[1], dirs[0])); err != nil {
		t.Fatal(err)
	}
	now, leave := g.mustUse(t, dirs[0])
	defer leave()
	if now == old {
		t.Error("the replaced repository is still served")
	}
	if _, err := old.repo.View(t.Context()); err != nil {
		t.Errorf("who uses the old one: %v", err)
	}
	release()
	g.closing.Wait()
	if _, err := old.repo.View(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("old repository: view = %v, want that it is closed", err)
	}
	if _, _, err := g.use(t.Context(), dirs[1]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no repository: %v", err)
	}
}
