package bundle2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

var errHeaderEnds = errors.New("ends too early")

// header is a part's header.
type header struct {
	id        uint32
	typ       string // lower case
	mandatory bool
	params    []Param
}

// parseHeader decodes a part's header, without its length.
func parseHeader(b []byte) (h header, err error) {
	typ, b, ok := cutShort(b)
	if !ok || len(b) < 4+2 {
		return h, errHeaderEnds
	}
	h.mandatory = strings.ContainsFunc(string(typ), func(r rune) bool { return 'A' <= r && r <= 'Z' })
	h.typ = lower(typ)
	h.id = binary.BigEndian.Uint32(b)
	h.params, err = parseParams(b[4:])
	return h, err
}

// cutShort splits off a string after a byte with its length.
func cutShort(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || len(b)-1 < int(b[0]) {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n], b[n:], true
}

// lower changes ASCII only: types are no text.
func lower(b []byte) string {
	s := []byte(b)
	for i, c := range s {
		if isUpper(c) {
			s[i] = c + 'a' - 'A'
		}
	}
	return string(s)
}

// parseParams decodes what follows the part id.
func parseParams(b []byte) ([]Param, error) {
	mandatory := int(b[0])
	n := mandatory + int(b[1])
	b = b[2:]
	if len(b) < 2*n {
		return nil, errHeaderEnds
	}
	sizes, data := b[:2*n], string(b[2*n:])
	if n == 0 {
		return nil, checkRest(data)
	}
	ps := make([]Param, n)
	seen := make(map[string]bool, n)
	for i := range ps {
		k, v := int(sizes[2*i]), int(sizes[2*i+1])
		if len(data) < k+v {
			return nil, errHeaderEnds
		}
		ps[i] = Param{data[:k], data[k : k+v], i < mandatory}
		data = data[k+v:]
		// The format wants keys to be unique. Were they not, two readers
		// might see two different parts.
		if seen[ps[i].Key] {
			return nil, fmt.Errorf("parameter %q comes twice", ps[i].Key)
		}
		seen[ps[i].Key] = true
	}
	return ps, checkRest(data)
}

func checkRest(data string) error {
	if data != "" {
		return fmt.Errorf("%d bytes after the parameters", len(data))
	}
	return nil
}
