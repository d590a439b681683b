package hook

import (
	"cmp"
	"fmt"
	"math"
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

	// native is set for a hook in Python that this process stands in for.
	native Native

	// fault tells why the hook can't be run; nil if it can.
	fault *fault
}

// A fault keeps a hook from being run. Where the hook could veto it does; else
// the fault is a warning, but for one that only the log has to hear of.
type fault struct {
	message string
	hint    string
	logOnly bool
}

func (f *fault) veto(hook string) *Veto { return &Veto{Hook: hook, Message: f.message, Hint: f.hint} }

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
// they were set. Those that a file of an owner who isn't trusted adds or
// changes are not run, and the new ones among them stand before all others.
func parse(conf *config.Config, native map[string]Native) map[Point][]command {
	trusted := make(map[string]string)
	for _, it := range conf.Items(section) {
		trusted[it.Key] = it.Value
	}
	var all []ranked
	foreign := make(map[string]bool)
	for _, it := range conf.AllItems(section) {
		value, known := trusted[it.Key]
		if known && value == it.Value {
			continue
		}
		foreign[it.Key] = true
		if r, ok := untrusted(it); ok && !known {
			all = append(all, r)
		}
	}
	for _, it := range conf.Items(section) {
		r, ok := parseItem(conf, it, native)
		if foreign[it.Key] {
			priority := r.priority
			r, ok = untrusted(it)
			r.priority = priority
		}
		if ok {
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

// parsePoint tells at which point an item's hook is run; it is no hook if it is
// an option of one, or if no server reaches its point.
func parsePoint(it config.Item) (Point, bool) {
	point, _, _ := strings.Cut(it.Key, ".")
	return Point(point), !strings.Contains(it.Key, ":") && known(Point(point))
}

// untrusted is parseItem for a hook that somebody who isn't trusted has set.
// His empty one doesn't take away that of another.
func untrusted(it config.Item) (r ranked, ok bool) {
	r.name, r.priority = it.Key, math.MaxInt
	r.fault = &fault{message: fmt.Sprintf("untrusted hook %s not executed", it.Key), hint: "see 'hg help config.trusted'"}
	r.point, ok = parsePoint(it)
	return r, ok
}

// parseItem reads one item. An empty one is no hook.
func parseItem(conf *config.Config, it config.Item, native map[string]Native) (r ranked, ok bool) {
	r.name, r.text = it.Key, it.Value
	if r.point, ok = parsePoint(it); !ok || it.Value == "" {
		return r, false
	}
	var err error
	if r.priority, err = conf.Int(section, "priority."+it.Key, 0); err != nil {
		r.fault = &fault{message: err.Error(), hint: changeConfig}
	}
	if r.plain, err = parsePlain(conf, it.Key); err != nil {
		r.fault = &fault{message: err.Error(), hint: changeConfig}
	}
	name, python := strings.CutPrefix(it.Value, python)
	if !python {
		return r, true
	}
	if r.native = native[strings.TrimSpace(name)]; r.native == nil {
		text := fmt.Sprintf("the hook %s is in Python, which this server can't run (%s)", it.Key, source(it))
		r.fault = &fault{message: text, hint: changeConfig, logOnly: true}
	}
	return r, true
}

const (
	// python is what a value begins with that names a function in Python.
	python = "python:"

	changeConfig = "the administrator has to change the [hooks] section"
)

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
	Hook    string // its name, as "pretxnclose.policy"
	Message string // hg's sentence
	Hint    string // may be empty
}

// Error is hg's sentence.
func (e *Veto) Error() string { return e.Message }

// Unwrap returns the *hg.Abort.
func (e *Veto) Unwrap() error { return &hg.Abort{Message: e.Message, Hint: e.Hint} }
