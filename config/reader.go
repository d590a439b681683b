package config

import (
	"errors"
	"slices"
	"time"
)

// A reader takes keys of one section into fields, and collects what is wrong
// with them.
type reader struct {
	view    view
	section string
	known   []string
	faults  []error

	// locate tells file and line of a fault. hg's own keys go without, as in
	// hg's messages.
	locate bool
}

func read[T any](r *reader, keys []string, def T, what string, parse func(string) (T, bool)) T {
	r.known = append(r.known, keys...)
	v, err := typed(r.view, r.section, keys, def, what, parse)
	var fault *Error
	if errors.As(err, &fault) && r.locate {
		e, _, _ := r.view.lookup(r.section, keys...)
		fault.Location = e.source
	}
	if err != nil {
		r.faults = append(r.faults, err)
	}
	return v
}

func (r *reader) string(def string, keys ...string) string {
	return read(r, keys, def, "", func(s string) (string, bool) { return s, true })
}

func (r *reader) list(keys ...string) []string {
	return read(r, keys, nil, "list", func(s string) ([]string, bool) { return ParseList(s), true })
}

func (r *reader) bool(def bool, keys ...string) bool {
	return read(r, keys, def, "boolean", ParseBool)
}

func (r *reader) int(def int, keys ...string) int {
	return read(r, keys, def, "valid integer", parseInt)
}

// optional is a switch that may be unset.
func (r *reader) optional(key string) *bool {
	return read(r, []string{key}, nil, "boolean", func(s string) (*bool, bool) {
		v, ok := ParseBool(s)
		return &v, ok
	})
}

// atLeast is a number with a lower bound.
func (r *reader) atLeast(low, def int, key string) int {
	return read(r, []string{key}, def, "number in range", func(s string) (int, bool) {
		n, ok := parseInt(s)
		return n, ok && n >= low
	})
}

func (r *reader) bytes(def int64, key string) int64 {
	return read(r, []string{key}, def, "byte quantity", func(s string) (int64, bool) {
		n, ok := ParseBytes(s)
		return n, ok && n >= 0
	})
}

func (r *reader) duration(def time.Duration, key string) time.Duration {
	return read(r, []string{key}, def, "duration", func(s string) (time.Duration, bool) {
		d, ok := ParseDuration(s)
		return d, ok && d >= 0
	})
}

// unknown reports each key of the section that nobody asked for. Those with a
// known prefix are for others to read.
func (r *reader) unknown() {
	for _, it := range r.view.list(r.section) {
		if !slices.Contains(r.known, it.Key) {
			r.faults = append(r.faults, errorAt(it.Source, "unknown key %s.%s", r.section, it.Key))
		}
	}
}

func (r *reader) err() error { return errors.Join(r.faults...) }
