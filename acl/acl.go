package acl

import (
	"slices"
	"strings"

	"vcsd/config"
	"vcsd/hg"
	"vcsd/pattern"
)

// The sections.
const (
	groups         = "acl.groups"
	allowFiles     = "acl.allow"
	denyFiles      = "acl.deny"
	allowBranches  = "acl.allow.branches"
	denyBranches   = "acl.deny.branches"
	allowBookmarks = "acl.allow.bookmarks"
	denyBookmarks  = "acl.deny.bookmarks"
)

// Hooks returns the commands of [hooks] that this package stands for.
func Hooks() []string { return []string{"python:hgext.acl.hook"} }

// Rules are what a repository's configuration allows whom.
type Rules struct {
	conf    *config.Config
	root    string
	members Members
}

// Members returns who belongs to a group of the operating system; ok is false
// if there is no such group.
type Members func(group string) (users []string, ok bool, err error)

// New returns the rules of the repository whose root is at the absolute path
// root. members is asked for groups that [acl.groups] doesn't have; nil is
// SystemMembers.
func New(conf *config.Config, root string, members Members) *Rules {
	if members == nil {
		members = SystemMembers
	}
	return &Rules{conf, root, members}
}

// Applies reports whether changesets from a source, "serve" for those that a
// server is sent, are checked at all. Bookmarks always are.
func (r *Rules) Applies(source string) bool {
	sources, ok := r.conf.Get("acl", "sources")
	if !ok {
		return source == "serve"
	}
	return slices.Contains(config.ParseList(sources), source)
}

// CheckPoint returns hg's error where the hook is configured for a point at
// which it can't decide anything.
func CheckPoint(point string) error {
	switch point {
	case "pretxnchangegroup", "prepushkey":
		return nil
	}
	return hg.Abortf(`config error - hook type "%s" cannot stop incoming changesets, commits, nor bookmarks`, point)
}

// Changesets decides on changesets of one user.
type Changesets struct {
	user                        string
	allowBranches, denyBranches list
	allowFiles, denyFiles       list
}

// A list tells whether a section has an entry for a user that matches a name.
// It is nil without the section.
type list func(name string) bool

// Changesets returns what decides on changesets that a user pushes; the name
// is empty for who is anonymous. Its error is an *hg.Abort if that is the
// configuration's fault.
func (r *Rules) Changesets(user string) (*Changesets, error) {
	if file, _ := r.conf.Get("acl", "config"); file != "" {
		return nil, &hg.Abort{Message: "acl.config is set, which this server doesn't read", Hint: "move the sections of that file into the hgrc"}
	}
	c := &Changesets{user: user}
	for _, l := range []struct {
		to      *list
		section string
		compile func([]string) (list, error)
	}{
		{&c.allowBranches, allowBranches, exactly}, {&c.denyBranches, denyBranches, exactly},
		{&c.allowFiles, allowFiles, r.matching}, {&c.denyFiles, denyFiles, r.matching},
	} {
		var err error
		if *l.to, err = r.list(l.section, user, l.compile); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Check decides on a changeset: its branch, and the files that it says it
// changed, in its order. The error is an *hg.Abort.
func (c *Changesets) Check(node hg.Node, branch string, files []string) error {
	if err := c.check(c.denyBranches, c.allowBranches, `branch "`+branch+`"`, branch, node); err != nil {
		return err
	}
	for _, f := range files {
		if err := c.check(c.denyFiles, c.allowFiles, `"`+f+`"`, f, node); err != nil {
			return err
		}
	}
	return nil
}

func (c *Changesets) check(deny, allow list, what, name string, node hg.Node) error {
	return decide(deny, allow, c.user, what, name, node.Short())
}

// Bookmark decides on a bookmark that a user sets to the node, in hexadecimal,
// or deletes with an empty one. The error is an *hg.Abort.
func (r *Rules) Bookmark(user, name, node string) error {
	allow, err := r.list(allowBookmarks, user, exactly)
	if err != nil {
		return err
	}
	deny, err := r.list(denyBookmarks, user, exactly)
	if err != nil {
		return err
	}
	return decide(deny, allow, user, `bookmark "`+name+`"`, name, node)
}

// decide refuses what is denied, or not allowed, with hg's words.
func decide(deny, allow list, user, what, name, changeset string) error {
	var verdict string
	switch {
	case deny != nil && deny(name):
		verdict = "denied"
	case allow != nil && !allow(name):
		verdict = "not allowed"
	default:
		return nil
	}
	return hg.Abortf(`acl: user "%s" %s on %s (changeset "%s")`, user, verdict, what, changeset)
}

// list compiles those entries of a section that are for a user.
func (r *Rules) list(section, user string, compile func([]string) (list, error)) (list, error) {
	if !r.conf.HasSection(section) {
		return nil, nil
	}
	var keys []string
	for _, it := range r.conf.Items(section) {
		ok, err := r.isFor(it.Value, user)
		if err != nil {
			return nil, err
		}
		if ok {
			keys = append(keys, it.Key)
		}
	}
	return compile(keys)
}

// exactly matches the keys themselves; a key "*" matches every name.
func exactly(keys []string) (list, error) {
	all := slices.Contains(keys, "*")
	return func(name string) bool { return all || slices.Contains(keys, name) }, nil
}

// matching takes the keys for patterns.
func (r *Rules) matching(keys []string) (list, error) {
	m, err := pattern.Compile(keys, r.root)
	if err != nil {
		return nil, err
	}
	return m.Match, nil
}

// isFor reports whether a value names a user. It is "*" for everybody, or names
// of users and, behind "@", of groups; a "!" before a name means all others.
func (r *Rules) isFor(value, user string) (bool, error) {
	if value == "*" {
		return true, nil
	}
	for _, word := range words(value) {
		word, negated := strings.CutPrefix(word, "!")
		is, err := r.is(user, word)
		if err != nil {
			return false, err
		}
		if is != negated {
			return true, nil
		}
	}
	return false, nil
}

func words(value string) []string {
	return strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(", \t\n\r\f\v", c) })
}

// is reports whether user has a name, or belongs to a group.
func (r *Rules) is(user, name string) (bool, error) {
	group, isGroup := strings.CutPrefix(name, "@")
	if !isGroup {
		return user == name, nil
	}
	users := r.conf.List(groups, group)
	if len(users) == 0 {
		var ok bool
		var err error
		if users, ok, err = r.members(group); err != nil {
			return false, err
		}
		if !ok {
			return false, hg.Abortf("group '%s' is undefined", group)
		}
	}
	return slices.Contains(users, user), nil
}
