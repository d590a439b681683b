package wire

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"vcsd/hg"
	"vcsd/wire/bundle2"
)

// Limits bound what a request may hold, besides the body of a push. Zero means
// the default.
type Limits struct {
	// MaxArgBytes bounds the arguments as they are encoded, in headers or in
	// the body. 0 means 32 MiB, enough for 800,000 nodes. Headers are also
	// bounded by http.Server.MaxHeaderBytes, whose default of 1 MiB is too
	// little for a client with 25,000 heads: see MaxHeaderBytes.
	MaxArgBytes int64

	// MaxArgs bounds the number of arguments. 0 means 1000.
	MaxArgs int

	// MaxBatch bounds the commands in a batch, MaxBatchBytes their answers
	// together: a short list of them may ask for the same long answer again and
	// again. 0 means 1000, and 256 MiB.
	MaxBatch      int
	MaxBatchBytes int64

	// StallTime is how long a client may take to send StallBytes of a body, or
	// to take as many of a stream. 0 means 5 minutes, and 64 KiB.
	StallTime  time.Duration
	StallBytes int64

	// DrainBytes and DrainTime bound what is read of a body that nobody wants,
	// to use the connection again. 0 means 256 KiB, and 1 second.
	DrainBytes int64
	DrainTime  time.Duration

	// LingerBytes and LingerTime bound what is read of it after the answer, so
	// that the client finds that; see Linger. 0 means 4 MiB, and 2 seconds.
	LingerBytes int64
	LingerTime  time.Duration

	// TLSLingerBytes and TLSLingerTime are the same for connections with TLS. 0
	// means 256 MiB, and 30 seconds.
	TLSLingerBytes int64
	TLSLingerTime  time.Duration
}

// MaxHeaderBytes is a value for http.Server.MaxHeaderBytes that leaves room for
// the arguments of large repositories.
const MaxHeaderBytes = 16 << 20

func (l Limits) withDefaults() Limits {
	setDefault(&l.MaxArgBytes, 32<<20)
	setDefault(&l.MaxArgs, 1000)
	setDefault(&l.MaxBatch, 1000)
	setDefault(&l.MaxBatchBytes, 256<<20)
	setDefault(&l.StallTime, 5*time.Minute)
	setDefault(&l.StallBytes, 64<<10)
	setDefault(&l.DrainBytes, 256<<10)
	setDefault(&l.DrainTime, time.Second)
	setDefault(&l.LingerBytes, 4<<20)
	setDefault(&l.LingerTime, 2*time.Second)
	setDefault(&l.TLSLingerBytes, 256<<20)
	setDefault(&l.TLSLingerTime, 30*time.Second)
	return l
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// Args are the arguments of a command by name.
type Args map[string]string

// Command returns the command that r asks for, and whether it is one of this
// protocol. hgweb's pages use the same query parameter.
func Command(r *http.Request) (string, bool) {
	// Of several values the last one counts, as for hgweb.
	var name string
	eachPair(r.URL.RawQuery, func(key, value string) bool {
		if key == "cmd" {
			name = value
		}
		return true
	})
	_, ok := commands[name]
	return name, ok
}

// readArgs collects the arguments of r: those in the query, overridden by those
// in the body, or else by those in headers. It takes the part of the body that
// holds arguments and leaves the rest.
func readArgs(r *http.Request, l Limits) (Args, error) {
	args := Args{}
	if err := args.add(r.URL.RawQuery, l); err != nil {
		return nil, err
	}
	encoded, err := encodedArgs(r, l)
	if err != nil {
		return nil, err
	}
	over := Args{}
	if err := over.add(encoded, l); err != nil {
		return nil, err
	}
	for k, v := range over {
		args[k] = v
	}
	delete(args, "cmd")
	return args, nil
}

// add decodes a query. Of several values for one name the first counts.
func (a Args) add(query string, l Limits) error {
	tooMany := false
	eachPair(query, func(key, value string) bool {
		if _, ok := a[key]; ok {
			return true
		}
		tooMany = len(a) >= l.MaxArgs
		if !tooMany {
			a[key] = value
		}
		return !tooMany
	})
	if tooMany {
		return fmt.Errorf("more than %d arguments: %w", l.MaxArgs, hg.ErrTooLarge)
	}
	return nil
}

func encodedArgs(r *http.Request, l Limits) (string, error) {
	n, err := postArgsLen(r)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return joinHeaders(r.Header, "X-Hgarg-", l.MaxArgBytes)
	}
	if n > l.MaxArgBytes {
		return "", fmt.Errorf("arguments of %d bytes: %w", n, hg.ErrTooLarge)
	}
	var b strings.Builder
	if _, err := io.CopyN(&b, r.Body, n); err != nil {
		return "", fmt.Errorf("%w: arguments in the body: %w", hg.ErrMalformed, err)
	}
	return b.String(), nil
}

// postArgsLen returns the number of bytes at the start of the body that are
// arguments.
func postArgsLen(r *http.Request) (int64, error) {
	s := strings.TrimSpace(r.Header.Get("X-Hgargs-Post"))
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || r.ContentLength >= 0 && n > r.ContentLength {
		return 0, fmt.Errorf("%w: X-HgArgs-Post: %q", hg.ErrMalformed, s)
	}
	return n, nil
}

// joinHeaders joins the values of the headers prefix1, prefix2, and so on, up
// to the first one missing. The prefix is in Go's canonical form.
func joinHeaders(h http.Header, prefix string, max int64) (string, error) {
	var b strings.Builder
	for i := 1; ; i++ {
		values := h[prefix+strconv.Itoa(i)]
		if len(values) == 0 {
			return b.String(), nil
		}
		if int64(b.Len()+len(values[0])) > max {
			return "", fmt.Errorf("arguments of more than %d bytes: %w", max, hg.ErrTooLarge)
		}
		b.WriteString(values[0])
	}
}

// eachPair calls f with the decoded pairs of an x-www-form-urlencoded string,
// until f returns false. A pair without "=" has an empty value; a percent sign
// that starts no escape stands for itself, as for hg.
func eachPair(query string, f func(key, value string) bool) {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		if !f(unquotePlus(key), unquotePlus(value)) {
			return
		}
	}
}

// unquotePlus decodes percent escapes, and plus signs as spaces.
func unquotePlus(s string) string {
	return bundle2.Unquote(strings.ReplaceAll(s, "+", " "))
}
