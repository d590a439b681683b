package bundle2

import (
	"maps"
	"slices"
	"strings"
)

// Caps are what a peer understands: names with a list of values, which may be
// empty.
type Caps map[string][]string

// EncodeCaps returns the capabilities blob: lines of name or name=value,value,
// quoted, sorted by name, without a newline at the end. It is the payload of
// replycaps; in the capabilities of the server it is quoted once more.
func EncodeCaps(c Caps) string {
	lines := make([]string, 0, len(c))
	for _, name := range slices.Sorted(maps.Keys(c)) {
		line := Quote(name)
		for i, v := range c[name] {
			sep := ","
			if i == 0 {
				sep = "="
			}
			line += sep + Quote(v)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// DecodeCaps reads a capabilities blob. Lines without a name are ignored; of two lines
// with the same name the later counts.
func DecodeCaps(blob string) Caps {
	c := Caps{}
	for line := range strings.SplitSeq(blob, "\n") {
		name, list, _ := strings.Cut(line, "=")
		if name == "" {
			continue
		}
		var values []string
		if list != "" {
			for v := range strings.SplitSeq(list, ",") {
				values = append(values, Unquote(v))
			}
		}
		c[Unquote(name)] = values
	}
	return c
}

// Has reports whether the capability is there and, if a value is given,
// whether it has that value.
func (c Caps) Has(name string, value ...string) bool {
	values, ok := c[name]
	for _, v := range value {
		ok = ok && slices.Contains(values, v)
	}
	return ok
}
