package obsmarker

import (
	"fmt"
	"iter"

	"vcsd/wire/internal/frame"
)

// The versions, which are the first byte of an obsstore file and of an
// obsmarkers part's payload. Markers follow without anything between them.
const (
	Version0 = 0
	Version1 = 1 // what hg writes
)

// Decode reads an obsstore file or the payload of an obsmarkers part.
func Decode(data []byte) (version byte, markers []Marker, err error) {
	if len(data) == 0 {
		return 0, nil, frame.Malformed("obsmarkers", 0, "parsing obsolete marker: no version")
	}
	version = data[0]
	for m, err := range All(version, data[1:], 1) {
		if err != nil {
			return version, nil, err
		}
		markers = append(markers, m)
	}
	return version, markers, nil
}

// All returns the markers in data, which has no version byte and starts at
// offset off of its file or stream. The first error ends the sequence; it
// unwraps to hg.ErrMalformed and an *hg.Abort. Nothing in a Marker refers to
// data.
func All(version byte, data []byte, off int64) iter.Seq2[Marker, error] {
	return func(yield func(Marker, error) bool) {
		parse := parsers(version)
		if parse == nil {
			yield(Marker{}, frame.Malformed("obsmarkers", off, "parsing obsolete marker: unknown version %d", version))
			return
		}
		for len(data) > 0 {
			m, n, err := parse(data)
			if err != nil {
				yield(Marker{}, frame.Malformed("obsmarkers", off, "parsing obsolete marker: %v", err))
				return
			}
			if !yield(m, nil) {
				return
			}
			data, off = data[n:], off+int64(n)
		}
	}
}

// Whole returns how long the part of data is that consists of whole markers,
// by what they say of their lengths. data is as for All. What follows is the
// beginning of a marker, as in a file that is being written.
func Whole(version byte, data []byte) int {
	size := sizeV1
	if version == Version0 {
		size = sizeV0
	}
	n := 0
	for {
		next := size(data[n:])
		if next == 0 || next > int64(len(data)-n) {
			return n
		}
		n += int(next)
	}
}

// parsers returns the function that reads one marker from the start of data,
// and how long it is.
func parsers(version byte) func(data []byte) (m Marker, n int, err error) {
	switch version {
	case Version0:
		return parseV0
	case Version1:
		return parseV1
	}
	return nil
}

// Append adds m in the given version: that of the store it goes into, or one
// that the peer understands.
func Append(b []byte, version byte, m *Marker) ([]byte, error) {
	switch version {
	case Version0:
		return AppendV0(b, m)
	case Version1:
		return AppendV1(b, m)
	}
	return b, fmt.Errorf("unknown version %d of obsolescence markers", version)
}

// Encode returns the payload of an obsmarkers part, or a whole obsstore file,
// in version 1.
func Encode(markers []Marker) ([]byte, error) {
	b := []byte{Version1}
	for i := range markers {
		var err error
		if b, err = AppendV1(b, &markers[i]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// tooShort is the error of a piece that ends too early, in hg's manner.
func tooShort(what string, want, got int) error {
	return fmt.Errorf("%s is too short, %d bytes expected, got %d", what, want, got)
}
