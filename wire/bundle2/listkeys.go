package bundle2

import (
	"fmt"
	"strings"

	"vcsd/wire/internal/frame"
)

// A KeyValue is an entry of a pushkey namespace.
type KeyValue struct{ Key, Value string }

// AppendKeys adds the payload of a listkeys part, which is also the answer to
// the command of that name: lines of key, tab, value, without a newline at the
// end. Keys and values can't hold a tab or newline.
func AppendKeys(b []byte, kvs []KeyValue) ([]byte, error) {
	for i, kv := range kvs {
		if strings.ContainsAny(kv.Key, "\t\n\r") || strings.ContainsAny(kv.Value, "\t\n\r") {
			return b, fmt.Errorf("pushkey entry %q = %q holds a tab or newline", kv.Key, kv.Value)
		}
		if i > 0 {
			b = append(b, '\n')
		}
		b = append(append(append(b, kv.Key...), '\t'), kv.Value...)
	}
	return b, nil
}

// DecodeKeys reads the payload of a listkeys part.
func DecodeKeys(b []byte) ([]KeyValue, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var kvs []KeyValue
	off := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		key, value, ok := strings.Cut(line, "\t")
		if !ok || strings.ContainsAny(line, "\r") || strings.Contains(value, "\t") {
			return nil, frame.Malformed("listkeys", int64(off), "bad pushkey entry %q", line)
		}
		kvs = append(kvs, KeyValue{key, value})
		off += len(line) + 1
	}
	return kvs, nil
}
