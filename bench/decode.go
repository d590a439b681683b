package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"vcsd/internal/hgtest"
)

var errShort = fmt.Errorf("changegroup: %w", io.ErrUnexpectedEOF)

// countChangesets counts the chunks of a changegroup's first group and walks
// all others (hg help internals.changegroups).
func countChangesets(b []byte) (n int, err error) {
	chunk := func() (int, error) {
		if len(b) < 4 {
			return 0, errShort
		}
		size := int(binary.BigEndian.Uint32(b))
		if size != 0 && (size <= 4 || size > len(b)) {
			return 0, errShort
		}
		b = b[max(size, 4):]
		return size, nil
	}
	group := func() (n int, err error) {
		for {
			if size, err := chunk(); size == 0 || err != nil {
				return n, err
			}
			n++
		}
	}
	if n, err = group(); err != nil {
		return n, err
	}
	if _, err := group(); err != nil { // the manifest's
		return n, err
	}
	for {
		if size, err := chunk(); size == 0 || err != nil { // a file's name
			return n, err
		}
		if _, err := group(); err != nil {
			return n, err
		}
	}
}

// checkStream checks that a stream2 part has the files and bytes it announces.
func checkStream(p *hgtest.Part) error {
	count := func(name string) int {
		v, _ := p.Param(name)
		n, err := strconv.Atoi(v)
		if err != nil {
			return -1
		}
		return n
	}
	b, files, bytes := p.Payload, 0, 0
	for len(b) > 1 {
		b = b[1:] // where the file belongs: store or cache
		name, n := binary.Uvarint(b)
		size, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 || name+size > uint64(len(b)-n-m) {
			return fmt.Errorf("stream is cut in file %d", files)
		}
		b = b[n+m+int(name+size):]
		files++
		bytes += int(size)
	}
	if files != count("filecount") || bytes != count("bytecount") {
		return fmt.Errorf("stream of %d files with %d bytes announces %v", files, bytes, p.Mandatory)
	}
	return nil
}

// checkPush checks that a push was taken.
func checkPush(a *hgtest.Answer) error {
	r, err := hgtest.ParseReply(a)
	if err != nil {
		return err
	}
	if r.Return == 0 || r.Error != "" {
		return fmt.Errorf("push was answered %+v", r)
	}
	return nil
}

// errRaced means that a push lost against another.
var errRaced = errors.New("push lost a race")

// checkContest is checkPush for pushes of which one only can win.
func checkContest(a *hgtest.Answer) error {
	r, err := hgtest.ParseReply(a)
	if err == nil && r.Error == "pushraced" && strings.Contains(r.Reason, "changed while pushing") {
		return errRaced
	}
	return checkPush(a)
}
