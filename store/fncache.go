package store

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"vcsd/hg"
)

// An FNCache is the list of a store's filelog files (hg help
// internals.requirements, fncache), without which hashed names could not be
// led back to files. A line for each: its name in the form of EncodeDir. It
// may be read by several goroutines at once until Added.
type FNCache struct {
	names map[string]struct{} // decoded
	size  int64               // bytes in the file
	open  bool                // the file ends without a newline
}

// ParseFNCache reads an fncache. A last line without a newline, which is what
// an append that was cut off leaves, is taken for a name if it can be a whole
// one, and Unterminated tells of it. An empty line is an error, as it is to hg.
func ParseFNCache(b []byte) (*FNCache, error) {
	whole := b[:bytes.LastIndexByte(b, '\n')+1]
	tail := string(b[len(whole):])
	c := &FNCache{names: make(map[string]struct{}), size: int64(len(b)), open: tail != ""}
	i := 0
	for line := range bytes.Lines(whole) {
		i++
		name := string(line[:len(line)-1])
		if name == "" {
			return nil, fmt.Errorf("invalid entry in fncache, line %d: %w", i, hg.ErrMalformed)
		}
		c.names[DecodeDir(name)] = struct{}{}
	}
	if strings.HasSuffix(tail, ".i") || strings.HasSuffix(tail, ".d") {
		c.names[DecodeDir(tail)] = struct{}{}
	}
	return c, nil
}

// Unterminated reports whether the file's last line has no newline: hg refuses
// to read such a file, and it is to be replaced by EncodeFNCache of Names.
func (c *FNCache) Unterminated() bool { return c.open }

// Len returns the number of names.
func (c *FNCache) Len() int { return len(c.names) }

// Has reports whether a file is listed, by its name in the store before
// encoding, such as "data/a.i".
func (c *FNCache) Has(name string) bool {
	_, ok := c.names[name]
	return ok
}

// Names returns all names, sorted. The slice is the caller's.
func (c *FNCache) Names() []string {
	names := make([]string, 0, len(c.names))
	for n := range c.names {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// AppendForm returns the bytes that add names to the file, and the offset to
// write them at: its end. The names must not be listed yet, nor the file be
// Unterminated.
func (c *FNCache) AppendForm(names []string) (data []byte, off int64) {
	for _, n := range names {
		data = append(append(data, EncodeDir(n)...), '\n')
	}
	return data, c.size
}

// Added returns the FNCache after the bytes of AppendForm were written. The old
// one must not be used any more.
func (c *FNCache) Added(names []string) *FNCache {
	data, off := c.AppendForm(names)
	for _, n := range names {
		c.names[n] = struct{}{}
	}
	return &FNCache{names: c.names, size: off + int64(len(data))}
}

// EncodeFNCache returns a whole file that lists names.
func EncodeFNCache(names []string) []byte {
	data, _ := new(FNCache).AppendForm(names)
	return data
}
