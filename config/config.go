package config

import (
	"maps"
	"slices"
	"strings"
)

// A Config is the result of reading configuration files in their order. The
// zero value is not usable; a Loader or New makes one.
type Config struct {
	trusted view
	all     view // also what files of untrusted owners say

	overrides []Item // win over whatever is read later
	files     []seen // what the values depend on
	warnings  []string
	level     int // of the last file

	trustUsers, trustGroups []string

	fs FS
}

// An Item is one key with its value.
type Item struct {
	Section, Key, Value string
	Source              string // file and line, or what else set it
}

// A view maps sections to their items. Sections are replaced, never changed,
// so views can share them.
type view map[string]*section

type section struct {
	items map[string]entry
	next  int
}

type entry struct {
	value, source string
	level         int
	pos           int // order within the section
}

// New returns a Config without any file, with these items as overrides.
func New(overrides ...Item) *Config {
	c := &Config{trusted: view{}, all: view{}, fs: OS()}
	return c.With(overrides...)
}

// With returns a Config in which the items win over everything, also over files
// read later. Of two for the same key the later one counts.
func (c *Config) With(items ...Item) *Config {
	d := c.derive()
	d.overrides = append(d.overrides, items...)
	d.apply(nil, true)
	return d
}

func (c *Config) derive() *Config {
	d := *c
	d.trusted, d.all = maps.Clone(c.trusted), maps.Clone(c.all)
	d.overrides = slices.Clip(c.overrides)
	d.files = slices.Clip(c.files)
	d.warnings = slices.Clip(c.warnings)
	d.trustUsers, d.trustGroups = slices.Clip(c.trustUsers), slices.Clip(c.trustGroups)
	return &d
}

// apply adds what one file said, and the overrides on top.
func (c *Config) apply(ops []op, trusted bool) {
	base := c.level
	for i := range ops {
		ops[i].level += base
		c.level = max(c.level, ops[i].level)
	}
	c.level++
	for _, it := range c.overrides {
		ops = append(ops, op{section: it.Section, key: it.Key, value: it.Value, source: it.Source, level: c.level})
	}
	c.all.apply(ops)
	if trusted {
		c.trusted.apply(ops)
		// Once trusted, trusted for all files to come.
		c.trustUsers = append(c.trustUsers, c.List("trusted", "users")...)
		c.trustGroups = append(c.trustGroups, c.List("trusted", "groups")...)
	} else {
		c.trusted.apply(ops[len(ops)-len(c.overrides):])
	}
}

func (v view) apply(ops []op) {
	fresh := map[string]bool{}
	for _, o := range ops {
		old := v[o.section]
		if !fresh[o.section] {
			fresh[o.section] = true
			v[o.section] = old.clone()
		}
		s := v[o.section]
		if o.key == "" {
			continue
		}
		if o.unset {
			delete(s.items, o.key)
			continue
		}
		s.items[o.key] = entry{o.value, o.source, o.level, s.next}
		s.next++
	}
}

func (s *section) clone() *section {
	if s == nil {
		return &section{items: map[string]entry{}}
	}
	return &section{maps.Clone(s.items), s.next}
}

// lookup finds the value of a key or of one of its aliases, whichever was read
// last. Of several in one file the first name counts.
func (v view) lookup(sec string, keys ...string) (entry, string, bool) {
	var best entry
	name := ""
	for _, key := range keys {
		s, k := sec, key
		if v[s] == nil {
			continue
		}
		e, ok := v[s].items[k]
		if ok && (name == "" || e.level > best.level) {
			best, name = e, key
		}
	}
	return best, name, name != ""
}

// Get returns the trusted value of a key and whether it is set. More keys are
// its aliases.
func (c *Config) Get(section, key string, aliases ...string) (string, bool) {
	e, _, ok := c.trusted.lookup(section, append([]string{key}, aliases...)...)
	return e.value, ok
}

// Source returns the file and line, or the option, that set a key; empty if it
// isn't set.
func (c *Config) Source(section, key string) string {
	e, _, _ := c.trusted.lookup(section, key)
	return e.source
}

// Items returns the items of a section in the order in which they were set
// last.
func (c *Config) Items(section string) []Item { return c.trusted.list(section) }

func (v view) list(name string) []Item {
	s := v[name]
	if s == nil {
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(s.items), func(a, b string) int { return s.items[a].pos - s.items[b].pos })
	items := make([]Item, len(keys))
	for i, k := range keys {
		items[i] = Item{name, k, s.items[k].value, s.items[k].source}
	}
	return items
}

// AllItems is Items with what stands in files of owners who aren't trusted.
func (c *Config) AllItems(section string) []Item { return c.all.list(section) }

// HasSection reports whether a trusted file has a section, were it empty.
func (c *Config) HasSection(name string) bool { return c.trusted[name] != nil }

// Sections returns the names of all sections that a file has set something in,
// sorted.
func (c *Config) Sections() []string {
	var names []string
	for name, s := range c.trusted {
		if len(s.items) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Warnings returns sentences on files that were not trusted, as hg prints them.
// They are empty with ui.report_untrusted off.
func (c *Config) Warnings() []string { return slices.Clone(c.warnings) }

// ParseOverride reads the value of a --config option.
func ParseOverride(arg string) (Item, error) {
	name, value, ok := strings.Cut(arg, "=")
	section, key, dotted := strings.Cut(strings.Trim(name, space), ".")
	if !ok || !dotted || section == "" || key == "" {
		return Item{}, &OptionError{arg}
	}
	return Item{section, key, strings.Trim(value, space), "--config"}, nil
}

// An OptionError is a --config option that can't be read.
type OptionError struct{ Arg string }

func (e *OptionError) Error() string {
	return "malformed --config option: '" + e.Arg + "' (use --config section.name=value)"
}
