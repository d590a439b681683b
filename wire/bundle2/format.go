package bundle2

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"vcsd/hg"
)

// A stream is the magic, an int32 with the length of the stream parameters,
// those, and the rest, which may be compressed: parts, and an int32 of 0.
//
// A part is an int32 with the length of its header, the header, and payload
// chunks: an int32 with the length of the data, and the data. All integers
// are big-endian.
const (
	magicName    = "HG"
	magicVersion = "20"
	magic        = magicName + magicVersion

	sizeLen = 4 // of every int32 above

	endOfStream    = 0  // in place of a header's length
	endOfPayload   = 0  // in place of a chunk's length
	interruptChunk = -1 // in place of a chunk's length: a whole part follows
)

// A part's header is a byte with the length of the type, the type, 4 bytes of
// part id, a byte each with the number of mandatory and of advisory
// parameters, two bytes with the lengths of key and value for each parameter,
// and the keys and values, mandatory parameters first.
const (
	maxByte        = math.MaxUint8 // longest type, key and value; most parameters of one sort
	maxHeaderBytes = 1 + maxByte + 4 + 2 + 2*maxByte*(2+2*maxByte)
)

// payloadBytes is the length of the payload chunks that are written, but for
// the last. It is the same as hg's.
const payloadBytes = 32 << 10

// A Param is a parameter of a part.
type Param struct {
	Key, Value string // at most 255 bytes each
	// Mandatory means that a receiver that doesn't know the parameter must
	// refuse the part.
	Mandatory bool
}

// Mandatory returns mandatory parameters of alternating keys and values.
func Mandatory(keyValues ...string) []Param { return params(true, keyValues) }

// Advisory returns advisory parameters of alternating keys and values.
func Advisory(keyValues ...string) []Param { return params(false, keyValues) }

func params(mandatory bool, kv []string) []Param {
	ps := make([]Param, 0, len(kv)/2)
	for i := 0; i+1 < len(kv); i += 2 {
		ps = append(ps, Param{kv[i], kv[i+1], mandatory})
	}
	return ps
}

// ClipValue shortens a text to what fits a parameter, between two characters.
func ClipValue(s string) string {
	const more = "..."
	if len(s) <= maxByte {
		return s
	}
	n := maxByte - len(more)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + more
}

// AbortParams returns the parameters of an error:abort part.
func AbortParams(e *hg.Abort) []Param {
	ps := Mandatory("message", ClipValue(e.Message))
	if e.Hint != "" {
		ps = append(ps, Advisory("hint", ClipValue(e.Hint))...)
	}
	return ps
}

// appendHeader adds a part's header, its length before it, to b.
func appendHeader(b []byte, id uint32, typ string, mandatory bool, ps []Param) ([]byte, error) {
	if typ == "" || len(typ) > maxByte || !validType(typ) {
		return b, fmt.Errorf("part type %q", typ)
	}
	if mandatory {
		typ = strings.ToUpper(typ)
	} else {
		typ = strings.ToLower(typ)
	}
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(len(typ)))
	b = append(b, typ...)
	b = binary.BigEndian.AppendUint32(b, id)
	b, err := appendParams(b, ps)
	if err != nil {
		return b, fmt.Errorf("part %s: %w", typ, err)
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-sizeLen))
	return b, nil
}

// validType reports whether hg would let a part have that type.
func validType(typ string) bool {
	for _, c := range []byte(typ) {
		if !isAlnum(c) && c != '_' && c != ':' && c != '-' {
			return false
		}
	}
	return true
}

// appendParams adds the parameters in the order of the format.
func appendParams(b []byte, ps []Param) ([]byte, error) {
	counts := len(b)
	b = append(b, 0, 0)
	for i, mandatory := range []bool{true, false} {
		for _, p := range ps {
			if p.Mandatory != mandatory {
				continue
			}
			if p.Key == "" || len(p.Key) > maxByte || len(p.Value) > maxByte {
				return b, fmt.Errorf("parameter %q with a value of %d bytes", p.Key, len(p.Value))
			}
			if b[counts+i] == maxByte {
				return b, fmt.Errorf("more than %d parameters", maxByte)
			}
			b[counts+i]++
			b = append(b, byte(len(p.Key)), byte(len(p.Value)))
		}
	}
	for _, mandatory := range []bool{true, false} {
		for _, p := range ps {
			if p.Mandatory == mandatory {
				b = append(append(b, p.Key...), p.Value...)
			}
		}
	}
	return b, nil
}

func isAlpha(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isAlnum(c byte) bool { return isAlpha(c) || '0' <= c && c <= '9' }
