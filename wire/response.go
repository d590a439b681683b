package wire

import (
	"io"
	"maps"
	"net/http"
	"strconv"
)

// writeBytes answers with a whole body.
func writeBytes(w http.ResponseWriter, r *http.Request, mediaType string, body []byte) error {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	writeHeader(w, r, http.StatusOK, "")
	_, err := w.Write(body)
	return err
}

// WritePage answers with a page for people.
func WritePage(w http.ResponseWriter, r *http.Request, mediaType, body string) error {
	return writeBytes(w, r, mediaType, []byte(body))
}

// MethodNotAllowed refuses a method of HTTP that means nothing here.
func MethodNotAllowed() *StatusError {
	return &StatusError{Code: http.StatusMethodNotAllowed, Reason: "method not allowed",
		Header: http.Header{"Allow": {"GET, HEAD, POST, PUT"}}}
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
