package wire

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	"vcsd/wire/compression"
)

// A Stream is the body of a long answer. What is written to it is compressed
// with an engine that the client knows, unless the writer asks for something
// else before the first byte. Nothing is sent before that byte, so until then
// an error can still be told.
type Stream struct {
	w        http.ResponseWriter
	r        *http.Request
	client   clientCaps
	features *Features

	bare    bool // send what is written as it is, in media type 0.1
	chosen  bool // engine is settled
	engine  compression.Engine
	encoded bool  // what is written went through the engine already
	size    int64 // of what will be written, -1 if unknown

	started bool
	out     *stallWriter // to w
	buf     *bufio.Writer
	enc     compression.Writer // nil if what is written is sent as it is
}

func newStream(w http.ResponseWriter, r *http.Request, c *call) *Stream {
	return &Stream{w: w, r: r, client: c.client, features: c.features, size: -1, out: newStallWriter(w, c.limits.StallTime)}
}

// Engines returns the engines that the client can decode, best first. It is
// what Encoded may be called with, apart from engines that the server's
// configuration leaves out.
func (s *Stream) Engines() []compression.Engine {
	if s.bare {
		return []compression.Engine{compression.None}
	}
	return s.client.accepted(s.features.Engines)
}

// Engine returns what will be written is going to be compressed with, and the
// level. ok is false if the client could not be told that bytes are in that form
// already, so that Encoded would refuse them.
func (s *Stream) Engine() (e compression.Engine, level int, ok bool) {
	e = compression.Zlib
	switch engines := s.Engines(); {
	case s.chosen:
		e = s.engine
	case len(engines) > 0:
		e = engines[0]
	}
	return e, s.features.Levels[e], !s.bare && !s.started && s.client.reads(e)
}

// Decodes reports whether the client named e among the engines that it can
// decode.
func (s *Stream) Decodes(e compression.Engine) bool {
	return slices.Contains(s.client.comp, e.WireName())
}

// Uncompressed asks for no compression, because what is written has been
// compressed on the inside. A client that doesn't read media type 0.2 gets
// zlib nevertheless. It does nothing after the first byte.
func (s *Stream) Uncompressed() {
	if s.client.media2 && !s.started && !s.bare {
		s.engine, s.chosen = compression.None, true
	}
}

// Encoded declares that the bytes to be written are the output of engine e,
// and reports whether the client can decode that. If not, or after the first
// byte, it changes nothing.
func (s *Stream) Encoded(e compression.Engine) bool {
	if s.started || s.bare || !s.client.reads(e) {
		return false
	}
	s.engine, s.chosen, s.encoded = e, true, true
	return true
}

// SetSize tells how many bytes will be written to a stream that is sent as it
// is. With it, the kernel can send a file by itself. It does nothing after the
// first byte.
func (s *Stream) SetSize(n int64) {
	if !s.started {
		s.size = n
	}
}

// Write sends p. The bytes may stay in buffers until Flush.
func (s *Stream) Write(p []byte) (int, error) {
	if err := s.start(); err != nil {
		return 0, err
	}
	return s.sink().Write(p)
}

// ReadFrom sends all of r. If r is a file and nothing is compressed, it doesn't
// pass through this process.
func (s *Stream) ReadFrom(r io.Reader) (int64, error) {
	if err := s.start(); err != nil {
		return 0, err
	}
	if s.enc != nil {
		return io.Copy(s.sink(), r)
	}
	if err := s.buf.Flush(); err != nil {
		return 0, err
	}
	return s.out.ReadFrom(r)
}

// Flush sends what was written so far.
func (s *Stream) Flush() error {
	if err := s.start(); err != nil {
		return err
	}
	if s.enc != nil {
		if err := s.enc.Flush(); err != nil {
			return err
		}
	}
	if err := s.buf.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

func (s *Stream) sink() io.Writer {
	if s.enc != nil {
		return s.enc
	}
	return s.buf
}

// streamBuffer is large enough for a chunk of HTTP to be worth its frame.
const streamBuffer = 64 << 10

// start sends the header, and the name of the engine if the media type has it.
func (s *Stream) start() error {
	if s.started {
		return nil
	}
	mediaType, prefix := s.negotiate()
	s.buf = bufio.NewWriterSize(s.out, streamBuffer)
	asIs := s.bare || s.encoded || s.engine == compression.None
	if !asIs {
		// Before the header: a level that the engine doesn't have can be told.
		var err error
		if s.enc, err = compression.NewWriter(s.engine, s.features.Levels[s.engine], s.buf); err != nil {
			return err
		}
	}
	s.started = true
	s.w.Header().Set("Content-Type", mediaType)
	if asIs && s.size >= 0 {
		s.w.Header().Set("Content-Length", strconv.FormatInt(int64(len(prefix))+s.size, 10))
	}
	writeHeader(s.w, s.r, http.StatusOK, "")
	_, err := s.buf.WriteString(prefix)
	return err
}

// negotiate settles engine and media type. Media type 0.2 begins with the
// engine's name behind its length.
func (s *Stream) negotiate() (mediaType, prefix string) {
	if s.bare {
		return mediaType1, ""
	}
	if !s.chosen {
		engines := s.Engines()
		if len(engines) == 0 {
			s.engine = compression.Zlib
			return mediaType1, ""
		}
		s.engine = engines[0]
	}
	if !s.client.media2 {
		return mediaType1, ""
	}
	name := s.engine.WireName()
	return mediaType2, string([]byte{byte(len(name))}) + name
}

// finish ends the stream. One that nobody wrote to is sent empty.
func (s *Stream) finish() error {
	if err := s.start(); err != nil {
		return err
	}
	var err error
	if s.enc != nil {
		err = s.enc.Close()
	}
	err = errors.Join(err, s.buf.Flush())
	s.out.done()
	return err
}
