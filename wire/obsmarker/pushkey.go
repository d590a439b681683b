package obsmarker

import (
	"slices"
	"strconv"
	"strings"
)

// The pushkey namespace "obsolete" is for clients from before the part
// obsmarkers. Its keys are dump0, dump1, ...; the value of each is an obsstore
// file of version 0 in base 85.
const (
	keyPrefix = "dump"

	// maxDumpBytes bounds the markers of one value, before they are encoded;
	// one that is longer has a value of its own.
	maxDumpBytes = 5300
)

// PushKeys returns the keys and values for markers, which are sorted for that.
// What version 0 can't express is left out: such a client could not store it.
func PushKeys(markers []Marker) map[string]string {
	markers = slices.Clone(markers)
	slices.SortFunc(markers, Compare)
	var dumps [][]byte
	room := 0
	for i := range markers {
		b, err := AppendV0(nil, &markers[i])
		if err != nil {
			continue
		}
		if len(b) > room {
			dumps = append(dumps, []byte{Version0})
			room = maxDumpBytes
		}
		last := len(dumps) - 1
		dumps[last] = append(dumps[last], b...)
		room -= len(b)
	}
	keys := make(map[string]string, len(dumps))
	for i, d := range dumps {
		// hg numbers them from the last.
		keys[keyPrefix+strconv.Itoa(len(dumps)-1-i)] = string(appendBase85(nil, d))
	}
	return keys
}

// IsPushKey reports whether a key of the namespace can be set.
func IsPushKey(key string) bool { return strings.HasPrefix(key, keyPrefix) }

// DecodePushKey reads a value of the namespace.
func DecodePushKey(value string) ([]Marker, error) {
	b, err := decodeBase85(value)
	if err != nil {
		return nil, err
	}
	_, markers, err := Decode(b)
	return markers, err
}
