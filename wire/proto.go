package wire

import (
	"net/http"
	"slices"
	"strings"

	"vcsd/wire/compression"
)

// The media types (hg help internals.wireprotocol).
const (
	mediaType1 = "application/mercurial-0.1"
	mediaType2 = "application/mercurial-0.2"
	mediaError = "application/hg-error"
)

// clientCaps are what a client told of itself in X-HgProto headers.
type clientCaps struct {
	media2      bool     // it reads application/mercurial-0.2
	comp        []string // names of the engines that it can decode
	partialPull bool
}

// maxProtoBytes bounds the joined X-HgProto headers.
const maxProtoBytes = 64 << 10

func parseClientCaps(h http.Header) (clientCaps, error) {
	caps := clientCaps{comp: []string{"zlib", "none"}}
	value, err := joinHeaders(h, "X-Hgproto-", maxProtoBytes)
	if err != nil {
		return caps, err
	}
	for word := range strings.SplitSeq(value, " ") {
		switch {
		case word == "0.2":
			caps.media2 = true
		case word == "partial-pull":
			caps.partialPull = true
		case strings.HasPrefix(word, "comp="):
			caps.comp = strings.Split(word[len("comp="):], ",")
		}
	}
	return caps, nil
}

// reads reports whether the client decodes e. Media type 0.1 is always zlib;
// in 0.2, no compression needs no word of the client.
func (c clientCaps) reads(e compression.Engine) bool {
	if !c.media2 {
		return e == compression.Zlib
	}
	return e == compression.None || slices.Contains(c.comp, e.WireName())
}

// accepted returns those of the server's engines that the client announced, in
// the server's order. Without media type 0.2 that is zlib alone.
func (c clientCaps) accepted(engines []compression.Engine) []compression.Engine {
	if !c.media2 {
		return []compression.Engine{compression.Zlib}
	}
	var out []compression.Engine
	for _, e := range engines {
		if slices.Contains(c.comp, e.WireName()) {
			out = append(out, e)
		}
	}
	return out
}
