package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// maintained are the repositories that a command is to look after, and where
// their coordination service is.
type maintained struct {
	Repository string   `short:"R" xor:"what" placeholder:"REPO" help:"The repository (default: that of the working directory)."`
	Root       string   `xor:"what" placeholder:"DIR" help:"Every repository below DIR."`
	Config     []string `sep:"none" placeholder:"SECT.KEY=VAL" help:"Set a configuration value (may be repeated)."`
	State      string   `placeholder:"DIR" help:"State of the embedded etcd (default: ~/.local/state/vcsd)."`
	Etcd       []string `placeholder:"URL" help:"Use an external etcd instead."`
}

func (m *maintained) serve() *serveCmd {
	return &serveCmd{Repository: m.Repository, Root: m.Root, Config: m.Config, State: m.State, Etcd: m.Etcd}
}

// A target is one repository that a command looks after.
type target struct {
	name string // to be shown; empty if it is the only one
	path string // of the working directory
	dir  string // the .hg directory that has the store
}

// fs returns the file system rooted at the directory that has the store.
func (t *target) fs() vfs.FS { return vfs.NewOS(t.dir) }

// targets finds the repositories, each store once.
func (m *maintained) targets() (conf *loaded, all []target, err error) {
	if conf, err = m.serve().load(); err != nil {
		return nil, nil, err
	}
	if conf.root == "" {
		dir, _, err := storeOf(filepath.Join(conf.fixed, ".hg"))
		return conf, []target{{path: conf.fixed, dir: dir}}, err
	}
	paths, err := conf.loader.Below(conf.root)
	if err != nil {
		return nil, nil, err
	}
	seen := make(map[string]bool)
	for _, p := range paths {
		dir, _, err := storeOf(filepath.Join(p.Dir, ".hg"))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		if !seen[dir] {
			seen[dir] = true
			all = append(all, target{name: p.Name, path: p.Dir, dir: dir})
		}
	}
	if len(all) == 0 {
		return nil, nil, hg.Abortf("no repository below %s", m.Root)
	}
	return conf, all, nil
}

// prefix is what stands before lines on a repository.
func (t *target) prefix() string {
	if t.name == "" {
		return ""
	}
	return t.name + ": "
}

// warnings returns a log for what a command is to tell of its work.
func (s *streams) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// checkOwner refuses to make files that the server, which runs as the owner of
// the repository, could not write.
func checkOwner(fsys vfs.FS, name string) error {
	info, err := fsys.Stat(name)
	if err != nil {
		return err
	}
	if me := os.Geteuid(); me != int(info.UID) {
		return hg.Abortf("this is user %d, and %s belongs to user %d: run it as that one", me, name, info.UID)
	}
	return nil
}

// errNeverServed tells that a repository has no history of pushes.
var errNeverServed = errors.New("vcsd never took a push to this repository")
