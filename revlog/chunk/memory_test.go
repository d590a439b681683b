package chunk

import (
	"bytes"
	"runtime"
	"testing"
)

func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestLongEncode wants a long chunk to be made in memory of about its length,
// beside the encoder.
func TestLongEncode(t *testing.T) {
	if raceEnabled {
		t.Skip("long data take minutes with the race detector")
	}
	const n, encoder = 48 << 20, 30 << 20
	for _, engine := range []Engine{Zlib, Zstd} {
		for _, tt := range []struct {
			name string
			data []byte
		}{
			{"random", noise(n)},
			{"zeros after a random start", append(noise(n/3), make([]byte, n-n/3)...)},
		} {
			var c []byte
			got := allocated(func() { c = Encode(nil, tt.data, engine, 0) })
			if most := int64(len(c))*7/4 + encoder; got > most {
				t.Errorf("%v, %s: chunk of %d bytes: %d bytes allocated, want at most %d", engine, tt.name, len(c), got, most)
			}
			data, err := Decode(nil, c, n)
			if err != nil || !bytes.Equal(data, tt.data) {
				t.Errorf("%v, %s: Decode: %d bytes, %v; want what was encoded", engine, tt.name, len(data), err)
			}
		}
	}
}

// TestLongDecode wants nothing to be allocated where the caller made room for
// the data and Slack, and little more than the data where it didn't.
func TestLongDecode(t *testing.T) {
	if raceEnabled {
		t.Skip("long data take minutes with the race detector")
	}
	const n = 8 << 20
	data := source(n, 1)
	for name, c := range map[string][]byte{
		"zlib": Encode(nil, data, Zlib, 0), "zstd": Encode(nil, data, Zstd, 0),
		"zstd stream": unsizedFrame(t, data),
	} {
		dst := make([]byte, 0, n+Slack)
		if _, err := Decode(dst, c, n); err != nil { // makes a decoder
			t.Fatalf("%s: %v", name, err)
		}
		got := allocated(func() { dst, _ = Decode(dst[:0], c, n) })
		if got > 1<<20 || !bytes.Equal(dst, data) {
			t.Errorf("%s: %d bytes decoded with %d allocated, want %d with none", name, len(dst), got, n)
		}
	}
}

func TestRaw(t *testing.T) {
	for _, tt := range []struct {
		chunk, want string
		ok          bool
	}{
		{"", "", true},
		{"uabc", "abc", true},
		{"\x00abc", "\x00abc", true},
		{"u", "", true},
		{"xabc", "", false},
		{"\x28\xb5\x2f\xfd", "", false},
		{"?", "", false},
	} {
		got, ok := Raw([]byte(tt.chunk))
		if string(got) != tt.want || ok != tt.ok {
			t.Errorf("Raw(%q) = %q, %v, want %q, %v", tt.chunk, got, ok, tt.want, tt.ok)
		}
	}
}
