package wire

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"time"

	"vcsd/hg"
)

// A client that stops in the middle would hold what its request holds for ever:
// a place among the pushes, or a view. So there is a least rate at which a body
// has to come, and a stream to be taken. How long a whole request takes doesn't
// matter, and a push that waits for its turn reads nothing.

// A stallBody is the body of a request.
type stallBody struct {
	io.ReadCloser
	conn   *http.ResponseController
	limits Limits

	// Since the last StallBytes were complete:
	waited time.Duration // for bytes, not by who reads them
	got    int64
}

// limitStalls makes reads of the body of r fail when too little comes.
func limitStalls(w http.ResponseWriter, r *http.Request, l Limits) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &stallBody{ReadCloser: r.Body, conn: http.NewResponseController(w), limits: l}
	}
}

// Read implements io.Reader.
func (b *stallBody) Read(p []byte) (int, error) {
	start := time.Now()
	// A connection without deadlines, as in tests, just has none.
	_ = b.conn.SetReadDeadline(start.Add(b.limits.StallTime - b.waited))
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(start)
	if b.got += int64(n); b.got >= b.limits.StallBytes {
		b.waited, b.got = 0, 0
	}
	switch {
	case errors.Is(err, io.EOF):
		// The server goes on reading, to learn when the client leaves.
		_ = b.conn.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		// The deadline stays, or the server would wait for the rest.
		err = fmt.Errorf("%w: only %d bytes were received in %v", hg.ErrMalformed, b.got, b.limits.StallTime)
	case err != nil:
		// Also what io knows as an end, which this is not.
		err = fmt.Errorf("%w: the body of the request is cut or broken: %w", hg.ErrMalformed, err)
	}
	return n, err
}

// A stallWriter is the writer of a stream.
type stallWriter struct {
	w     http.ResponseWriter
	conn  *http.ResponseController
	limit time.Duration
}

func newStallWriter(w http.ResponseWriter, limit time.Duration) *stallWriter {
	return &stallWriter{w, http.NewResponseController(w), limit}
}

// Write implements io.Writer.
func (s *stallWriter) Write(p []byte) (int, error) {
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.limit))
	return s.w.Write(p)
}

// stallPiece is how much of a file a client has to take in the time of a stall.
const stallPiece = 4 << 20

// ReadFrom implements io.ReaderFrom. The kernel copies what is a file, or the
// beginning of one, but sees it through one limit only.
func (s *stallWriter) ReadFrom(r io.Reader) (total int64, err error) {
	left := int64(math.MaxInt64)
	if l, ok := r.(*io.LimitedReader); ok {
		r, left = l.R, l.N
		defer func() { l.N -= total }()
	}
	for left > 0 {
		piece := min(left, stallPiece)
		_ = s.conn.SetWriteDeadline(time.Now().Add(s.limit))
		n, err := io.Copy(s.w, io.LimitReader(r, piece))
		total, left = total+n, left-n
		if err != nil || n < piece {
			return total, err
		}
	}
	return total, nil
}

// done takes the deadline away for the next request.
func (s *stallWriter) done() { _ = s.conn.SetWriteDeadline(time.Time{}) }
