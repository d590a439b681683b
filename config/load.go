package config

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A Loader reads configuration files. Its fields are constant once it is used.
type Loader struct {
	FS FS

	// Getenv looks up an environment variable.
	Getenv func(string) (string, bool)

	// UID is the user whose files are trusted.
	UID int

	// Install is the directory of which etc/mercurial holds the files of this
	// installation; empty means none.
	Install string

	// UserName and GroupName return the names of ids, or empty strings.
	UserName, GroupName func(id int) string
}

// NewLoader returns the Loader for this process.
func NewLoader() *Loader {
	l := &Loader{FS: OS(), Getenv: os.LookupEnv, UID: os.Getuid(), UserName: userName, GroupName: groupName}
	if exe, err := os.Executable(); err == nil {
		l.Install = filepath.Dir(filepath.Dir(exe))
	}
	return l
}

func userName(id int) string {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return ""
}

func groupName(id int) string {
	if g, err := user.LookupGroupId(strconv.Itoa(id)); err == nil {
		return g.Name
	}
	return ""
}

// System reads the files of system and user, or those that HGRCPATH names.
func (l *Loader) System(overrides ...Item) (*Config, error) {
	c := New(overrides...)
	c.fs = l.FS
	for _, name := range l.systemFiles(c) {
		if err := l.read(c, name, false); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// systemFiles lists the files in their order. It notes the directories that it
// has looked into, where files may appear.
func (l *Loader) systemFiles(c *Config) []string {
	var names []string
	if path, ok := l.Getenv("HGRCPATH"); ok {
		for _, p := range filepath.SplitList(path) {
			if p != "" {
				names = append(names, l.rcFiles(c, l.expand(p))...)
			}
		}
		return names
	}
	var roots []string
	if l.Install != "" && l.Install != "/" {
		roots = append(roots, l.Install)
	}
	for _, root := range append(roots, "/") {
		dir := filepath.Join(root, "etc/mercurial")
		names = append(names, filepath.Join(dir, "hgrc"))
		if rcd := filepath.Join(dir, "hgrc.d"); l.isDir(rcd) {
			names = append(names, l.rcFiles(c, rcd)...)
		}
	}
	home := l.expand("~/.config")
	if xdg, ok := l.Getenv("XDG_CONFIG_HOME"); ok && filepath.IsAbs(xdg) {
		home = xdg
	}
	return append(names, l.expand("~/.hgrc"), filepath.Join(home, "hg/hgrc"))
}

func (l *Loader) isDir(name string) bool {
	info, err := l.FS.Stat(name)
	return err == nil && info.Dir
}

// rcFiles returns name, or the *.rc files in it if it is a directory.
func (l *Loader) rcFiles(c *Config, name string) []string {
	if !l.isDir(name) {
		return []string{name}
	}
	c.see(name)
	entries, err := l.FS.ReadDir(name)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e, ".rc") {
			names = append(names, filepath.Join(name, e))
		}
	}
	slices.Sort(names)
	return names
}

// WebConf derives a Config from base with the file of a --web-conf option,
// which is trusted whoever owns it. What it has in [paths] goes to a section of
// its own: that of a user's hgrc names where to pull from.
func (l *Loader) WebConf(base *Config, name string) (*Config, error) {
	if _, err := l.FS.Stat(name); err != nil {
		return nil, &sentence{reason(err) + ": '" + name + "'", err}
	}
	c := base.derive()
	return c, l.readInto(c, name, true, map[string]string{"paths": servedSection})
}

// Repository derives a Config from base with the files of a repository whose
// .hg directory is dir. sharedDir is that of the repository it shares its store
// with, if it has the share-safe requirement, or empty. Files that belong to
// nobody trusted count only where [web] says so; see Config.Web.
func (l *Loader) Repository(base *Config, dir, sharedDir string) (*Config, error) {
	c := base.derive()
	if _, skip := l.Getenv("HGRCSKIPREPO"); skip {
		return c, nil
	}
	names := []string{filepath.Join(dir, "hgrc"), filepath.Join(dir, "hgrc-not-shared")}
	if sharedDir != "" {
		names = slices.Insert(names, 0, filepath.Join(sharedDir, "hgrc"))
	}
	for _, name := range names {
		if err := l.read(c, name, false); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// read adds one file to c. A file that is missing or that this process may not
// read is passed over, as hg does; any other failure to read one is an error,
// since the file may say who has access. A fault in a file that isn't trusted is
// a warning.
func (l *Loader) read(c *Config, name string, trust bool) error {
	return l.readInto(c, name, trust, nil)
}

// readInto is read, but puts sections of the file into others.
func (l *Loader) readInto(c *Config, name string, trust bool, others map[string]string) error {
	c.see(name)
	// The owner of this file answers also for what it includes.
	data, info, err := l.FS.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		return nil
	case err != nil:
		return err
	}
	p := &parser{expand: l.expand, read: func(included string) ([]byte, error) {
		c.see(included)
		data, _, err := l.FS.ReadFile(included)
		return data, err
	}}
	err = p.data(name, data, 0)
	var fault *Error
	if err != nil && !errors.As(err, &fault) {
		return err
	}
	trusted := trust || l.trusts(c, info)
	if !trusted {
		c.warnUntrusted(l, name, info)
	}
	if fault != nil {
		if trusted {
			return fault
		}
		c.warnings = append(c.warnings, "ignored "+fault.Location+": "+fault.Message)
	}
	for i, o := range p.ops {
		if other, ok := others[o.section]; ok {
			p.ops[i].section = other
		}
	}
	c.apply(p.ops, trusted)
	return nil
}

func (l *Loader) trusts(c *Config, info Info) bool {
	if info.UID == l.UID {
		return true
	}
	if slices.Contains(c.trustUsers, "*") || slices.Contains(c.trustGroups, "*") {
		return true
	}
	userName, groupName := l.UserName(info.UID), l.GroupName(info.GID)
	return userName != "" && slices.Contains(c.trustUsers, userName) ||
		groupName != "" && slices.Contains(c.trustGroups, groupName)
}

func (c *Config) warnUntrusted(l *Loader, name string, info Info) {
	if report, err := c.Bool("ui", "report_untrusted", true); err == nil && !report {
		return
	}
	c.warnings = append(c.warnings, "not trusting file "+name+" from untrusted user "+
		nameOr(l.UserName(info.UID), info.UID)+", group "+nameOr(l.GroupName(info.GID), info.GID))
}

func nameOr(name string, id int) string {
	if name == "" {
		return strconv.Itoa(id)
	}
	return name
}

// A seen file is one that was read, or looked for.
type seen struct {
	name   string
	info   Info
	exists bool
}

// see notes what a file looks like before it is read.
func (c *Config) see(name string) {
	info, err := c.fs.Stat(name)
	c.files = append(c.files, seen{name, info, !errors.Is(err, fs.ErrNotExist)})
}

// Stale reports whether a file that c depends on has changed, appeared or gone
// since it was read.
func (c *Config) Stale() bool {
	return slices.ContainsFunc(c.files, func(f seen) bool {
		info, err := c.fs.Stat(f.name)
		return errors.Is(err, fs.ErrNotExist) == f.exists || !info.same(f.info)
	})
}

func (i Info) same(j Info) bool {
	return i.ModTime.Equal(j.ModTime) && i.Size == j.Size && i.Inode == j.Inode && i.Dev == j.Dev &&
		i.UID == j.UID && i.GID == j.GID && i.Dir == j.Dir
}

// expand replaces environment variables, and "~" or "~user" at the start. What
// isn't set or known stays as it is.
func (l *Loader) expand(s string) string {
	return l.expandVars(l.expandHome(s))
}

func (l *Loader) expandHome(s string) string {
	if !strings.HasPrefix(s, "~") {
		return s
	}
	name, rest, _ := strings.Cut(s[1:], "/")
	if rest != "" || strings.HasSuffix(s, "/") {
		rest = "/" + rest
	}
	home, ok := l.home(name)
	if !ok {
		return s
	}
	return strings.TrimRight(home, "/") + rest
}

func (l *Loader) home(name string) (string, bool) {
	if name != "" {
		u, err := user.Lookup(name)
		if err != nil {
			return "", false
		}
		return u.HomeDir, true
	}
	if home, ok := l.Getenv("HOME"); ok {
		return home, true
	}
	u, err := user.LookupId(strconv.Itoa(l.UID))
	if err != nil {
		return "", false
	}
	return u.HomeDir, true
}

func (l *Loader) expandVars(s string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "$")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, raw := varName(after)
		if v, ok := l.Getenv(name); ok && name != "" {
			b.WriteString(v)
		} else {
			b.WriteString("$" + raw)
		}
		s = after[len(raw):]
	}
}

// varName returns the name of the variable that s begins with, behind a dollar
// sign, and how it is written there.
func varName(s string) (name, raw string) {
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		if name, _, ok = strings.Cut(inner, "}"); ok {
			return name, s[:len(name)+2]
		}
		return "", ""
	}
	end := strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[:end]
}
