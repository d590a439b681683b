package wire

import (
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// writeBytes answers with a whole body.
func writeBytes(w http.ResponseWriter, r *http.Request, mediaType string, body []byte) error {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	writeHeader(w, r, http.StatusOK, "")
	_, err := w.Write(body)
	return err
}

// WriteStatus answers a protocol command with a status, as hgweb does: the
// reason stands in the status line and in the body.
func WriteStatus(w http.ResponseWriter, r *http.Request, e *StatusError) error {
	maps.Copy(w.Header(), e.Header)
	w.Header().Set("Content-Type", mediaType1)
	body := "0\n" + e.Reason + "\n"
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	writeHeader(w, r, e.Code, e.Reason)
	_, err := io.WriteString(w, body)
	return err
}

// WriteNotFound answers a protocol command at an address that is none of a
// repository.
func WriteNotFound(w http.ResponseWriter, r *http.Request) error {
	return WriteStatus(w, r, &StatusError{Code: http.StatusNotFound, Reason: "Not Found"})
}

// drain reads and drops the rest of the body, because hg sends all of a push
// before it reads the answer, and would be told of a broken connection instead.
// A client that waits for "100 Continue" hasn't begun to send and needs no
// draining; net/http closes its connection.
func drain(r *http.Request, max int64) {
	expects := strings.EqualFold(r.Header.Get("Expect"), "100-continue")
	if expects || r.Body == nil || r.Body == http.NoBody || r.Method != http.MethodPost && r.Method != http.MethodPut {
		return
	}
	// An error means that nobody is there to read the answer.
	_, _ = io.CopyN(io.Discard, r.Body, max)
}
