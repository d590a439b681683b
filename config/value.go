package config

import (
	"strconv"
	"strings"
	"time"
)

// String returns the value of a key, or def if it isn't set.
func (c *Config) String(section, key, def string) string {
	if v, ok := c.Get(section, key); ok {
		return v
	}
	return def
}

// List returns the words of a key; none if it isn't set.
func (c *Config) List(section, key string) []string {
	v, _ := c.Get(section, key)
	return ParseList(v)
}

// Bool returns the value of a switch, or def if it isn't set.
func (c *Config) Bool(section, key string, def bool) (bool, error) {
	return typed(c.trusted, section, []string{key}, def, "", ParseBool)
}

// Int returns the value of a number, or def if it isn't set.
func (c *Config) Int(section, key string, def int) (int, error) {
	return typed(c.trusted, section, []string{key}, def, "valid integer", parseInt)
}

// Bytes returns a size in bytes, or def if it isn't set.
func (c *Config) Bytes(section, key string, def int64) (int64, error) {
	return typed(c.trusted, section, []string{key}, def, "byte quantity", ParseBytes)
}

// Duration returns a length of time, or def if it isn't set. hg has no such
// values: they are only for keys of our own.
func (c *Config) Duration(section, key string, def time.Duration) (time.Duration, error) {
	return typed(c.trusted, section, []string{key}, def, "duration", ParseDuration)
}

// typed parses a value; the error is the one that hg prints.
func typed[T any](v view, section string, keys []string, def T, what string, parse func(string) (T, bool)) (T, error) {
	e, key, ok := v.lookup(section, keys...)
	if !ok {
		return def, nil
	}
	t, ok := parse(e.value)
	if !ok {
		if what == "" {
			what = "boolean"
		}
		return def, errorAt("", "%s.%s is not a %s ('%s')", section, key, what, e.value)
	}
	return t, nil
}

// ParseBool reads a switch, in any case of letters.
func ParseBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "1", "yes", "true", "on", "always":
		return true, true
	case "0", "no", "false", "off", "never":
		return false, true
	}
	return false, false
}

func parseInt(s string) (int, bool) {
	n, err := strconv.Atoi(strings.Trim(s, space))
	return n, err == nil
}

// sizeUnits are tried in this order.
var sizeUnits = []struct {
	suffix string
	bytes  float64
}{
	{"m", 1 << 20}, {"k", 1 << 10}, {"g", 1 << 30},
	{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"b", 1},
}

// ParseBytes reads a number of bytes, perhaps with a fraction and one of the
// units b, k, kb, m, mb, g and gb (powers of 1024, in any case of letters).
func ParseBytes(s string) (int64, bool) {
	s = strings.ToLower(strings.Trim(s, space))
	for _, u := range sizeUnits {
		if num, ok := strings.CutSuffix(s, u.suffix); ok {
			f, err := strconv.ParseFloat(strings.Trim(num, space), 64)
			f *= u.bytes
			ok = err == nil && f > -(1<<63) && f < 1<<63
			if !ok {
				return 0, false
			}
			return int64(f), true
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// ParseDuration reads a length of time as Go writes it, "1m30s", or a number of
// seconds.
func ParseDuration(s string) (time.Duration, bool) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		f *= float64(time.Second)
		return time.Duration(f), f > -(1<<63) && f < 1<<63
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}
