package outgoing

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// readV1 reads the body of a stream_out.
func readV1(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(data))
	var code, count, size int
	if _, err := fmt.Fscanf(r, "%d\n%d %d\n", &code, &count, &size); err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	files := make(map[string][]byte)
	for range count {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		name, length, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		var n int
		if _, err := fmt.Sscan(length, &n); err != nil {
			t.Fatal(err)
		}
		files[name] = make([]byte, n)
		if _, err := io.ReadFull(r, files[name]); err != nil {
			t.Fatal(err)
		}
		size -= n
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 || size != 0 {
		t.Errorf("%d bytes behind the last file, %d missing", len(rest), size)
	}
	return files
}

// readV2 reads the payload of a stream2 part.
func readV2(t *testing.T, part hgtest.Part) map[string][]byte {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(part.Payload))
	files, size := make(map[string][]byte), 0
	for {
		place, err := r.ReadByte()
		if err == io.EOF {
			break
		}
		if err != nil || place != 's' {
			t.Fatalf("file for %q, %v", place, err)
		}
		nameLen, err1 := binary.ReadUvarint(r)
		length, err2 := binary.ReadUvarint(r)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		b := make([]byte, nameLen+length)
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		files[string(b[:nameLen])] = b[nameLen:]
		size += int(length)
	}
	for name, want := range map[string]int{"filecount": len(files), "bytecount": size} {
		if got, _ := part.Param(name); got != fmt.Sprint(want) {
			t.Errorf("%s=%s, want %d", name, got, want)
		}
	}
	return files
}

// TestStreams compares what is streamed with the files of the store.
func TestStreams(t *testing.T) {
	for _, name := range []string{"linear", "split", "names", "nodotencode", "nofncache", "zlib", "nogeneraldelta", "obsolete", "share-safe", "nodemap"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, h := openRepo(t, name)
			v := viewOf(t, r)
			a := full()
			a.Changegroup, a.Stream, a.StreamAllowed, a.Publishing = false, true, true, true
			a.Caps["obsmarkers"] = []string{"V0", "V1"}
			parts := getBundle(t, v, a)
			if parts[0].Type != "STREAM2" {
				t.Fatalf("parts %v", parts)
			}
			v2 := readV2(t, parts[0])
			for file, b := range v2 {
				onDisk, err := os.ReadFile(filepath.Join(h.Dir, ".hg", "store", r.Requirements().Encoder().Encode(file)))
				if err != nil || !bytes.Equal(onDisk, b) {
					t.Errorf("%s: %d bytes; on disk %d, %v", file, len(b), len(onDisk), err)
				}
			}
			checkComplete(t, h.Dir, len(v2))
			_, hasMarkers := v2["obsstore"]
			if hasMarkers != v.HasMarkers() {
				t.Errorf("markers are streamed: %v, want %v", hasMarkers, v.HasMarkers())
			}
			var b bytes.Buffer
			if err := StreamV1(t.Context(), v, &b); err != nil {
				t.Fatal(err)
			}
			delete(v2, "obsstore")
			if v1 := readV1(t, b.Bytes()); len(v1) != len(v2) {
				t.Errorf("%d files in version 1, %d in version 2", len(v1), len(v2))
			}
		})
	}
}

// checkComplete counts the files of the store that make up its history.
func checkComplete(t *testing.T, dir string, streamed int) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join(dir, ".hg", "store"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		isLog := (strings.HasSuffix(path, ".i") || strings.HasSuffix(path, ".d")) && !strings.Contains(filepath.Base(path), "undo")
		if err == nil && info.Size() > 0 && (isLog || d.Name() == "obsstore") {
			n++
		}
		return err
	})
	if err != nil || n != streamed {
		t.Errorf("%d files are streamed of %d, %v", streamed, n, err)
	}
}

// TestStreamMarkers: who can't read the markers gets no stream.
func TestStreamMarkers(t *testing.T) {
	r, _ := openRepo(t, "obsolete")
	v := viewOf(t, r)
	for _, caps := range [][]string{nil, {"V0"}, {"V0", "V1"}, {"V1"}} {
		a := full()
		a.Changegroup, a.Stream, a.StreamAllowed = false, true, true
		if caps != nil {
			a.Caps["obsmarkers"] = caps
		}
		var b bytes.Buffer
		err := GetBundle(t.Context(), v, a, noKeys, &b)
		if fits := len(caps) > 0 && caps[len(caps)-1] == "V1"; fits != (err == nil) {
			t.Errorf("client with %v: %v", caps, err)
		}
	}
}
