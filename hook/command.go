package hook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"vcsd/config"
	"vcsd/hg"
)

const section = "hooks"

// A command is one configured hook.
type command struct {
	name  string // with its suffix, as "changegroup.mail"
	text  string // for the shell
	plain plainMode

	// fault tells why the hook can't be run; empty if it can.
	fault string
}

// plainMode tells what a hook finds in HGPLAIN.
type plainMode uint8

const (
	plainAlways plainMode = iota
	plainNever
	plainInherit
)

// ranked is a command with what hg sorts by.
type ranked struct {
	command
	point    Point
	priority int
}

// parse reads the hooks of the points that a server reaches. Several of a
// point are run by priority, the highest first, and then in the order in which
// they were set.
func parse(conf *config.Config, native []string) map[Point][]command {
	var all []ranked
	for _, it := range conf.Items(section) {
		if r, ok := parseItem(conf, it); ok && !slices.Contains(native, it.Value) {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(b.priority, a.priority) })
	hooks := make(map[Point][]command)
	for _, r := range all {
		hooks[r.point] = append(hooks[r.point], r.command)
	}
	return hooks
}

// parseItem reads one item. It is no hook if it is an option of one, if it is
// empty, or if no server reaches its point.
func parseItem(conf *config.Config, it config.Item) (ranked, bool) {
	if strings.Contains(it.Key, ":") || it.Value == "" {
		return ranked{}, false
	}
	point, _, _ := strings.Cut(it.Key, ".")
	r := ranked{command: command{name: it.Key, text: it.Value}, point: Point(point)}
	if !known(r.point) {
		return ranked{}, false
	}
	if strings.HasPrefix(it.Value, "python:") {
		r.fault = fmt.Sprintf("the hook %s is in Python, which this server can't run (%s)", it.Key, source(it))
		return r, true
	}
	var err error
	if r.priority, err = conf.Int(section, "priority."+it.Key, 0); err != nil {
		r.fault = err.Error()
	}
	if r.plain, err = parsePlain(conf, it.Key); err != nil {
		r.fault = err.Error()
	}
	return r, true
}

func source(it config.Item) string {
	if it.Source == "" {
		return "[hooks] " + it.Key
	}
	return it.Source
}

func parsePlain(conf *config.Config, name string) (plainMode, error) {
	key := name + ":run-with-plain"
	if s, _ := conf.Get(section, key); s == "auto" {
		return plainInherit, nil
	}
	plain, err := conf.Bool(section, key, true)
	if err != nil || plain {
		return plainAlways, err
	}
	return plainNever, nil
}

// A Veto means that a hook refused what was to come. It unwraps to the
// *hg.Abort that tells the client so.
type Veto struct {
	Hook   string // its name, as "pretxnclose.policy"
	Reason string // "exited with status 1" and the like
}

// Error is hg's sentence.
func (e *Veto) Error() string { return e.Hook + " hook " + e.Reason }

// Unwrap returns the *hg.Abort.
func (e *Veto) Unwrap() error { return &hg.Abort{Message: e.Error()} }
