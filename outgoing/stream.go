package outgoing

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"

	"vcsd/hg"
	"vcsd/revlog"
	"vcsd/store"
	"vcsd/wire/bundle2"
)

// A streamClone is the store's files as they are, each up to the length that
// it has at the View's seq: what later pushes append lies beyond it. So no lock
// is needed.
type streamClone struct {
	view  *store.View
	files []streamFile
	bytes int64
}

// A streamFile is a file of the store, and how to write the size bytes of it
// that belong to the View.
type streamFile struct {
	name  string // before encoding, such as "data/a.i"
	size  int64
	write func(w io.Writer) error
}

// newStreamClone finds the files to send. Secret changesets would go with
// them: it is for the caller to allow that.
func newStreamClone(ctx context.Context, view *store.View) (*streamClone, error) {
	s := &streamClone{view: view}
	paths, err := filePaths(ctx, view)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := s.addFilelog(ctx, path); err != nil {
			return nil, err
		}
	}
	s.addSnapshot("00manifest", view.Manifest())
	s.addSnapshot("00changelog", view.Changelog())
	return s, nil
}

// addFilelog adds the files of one filelog, which is opened again when it is
// sent: it may have grown by then, or have been split.
func (s *streamClone) addFilelog(ctx context.Context, path string) error {
	log, err := s.view.Filelog(ctx, path)
	if err != nil {
		return err
	}
	defer log.Close()
	s.addLog("data/"+path, log.Before(hg.Rev(s.view.Len())), func(write func(*revlog.Snapshot) error) error {
		log, err := s.view.Filelog(ctx, path)
		if err != nil {
			return err
		}
		defer log.Close()
		return write(log)
	})
	return nil
}

// addSnapshot adds the files of a log that the View holds.
func (s *streamClone) addSnapshot(name string, log *revlog.Snapshot) {
	s.addLog(name, log.Before(hg.Rev(s.view.Len())), func(write func(*revlog.Snapshot) error) error { return write(log) })
}

// addLog adds the files of a log; with opens it.
func (s *streamClone) addLog(name string, size revlog.Size, with func(write func(*revlog.Snapshot) error) error) {
	if size.Revs == 0 {
		return
	}
	// Data before the index, as it is read.
	if !size.Inline && size.DataBytes > 0 {
		s.add(name+".d", size.DataBytes, func(w io.Writer) error {
			return with(func(log *revlog.Snapshot) error { return log.WriteData(w, size) })
		})
	}
	s.add(name+".i", size.IndexBytes, func(w io.Writer) error {
		return with(func(log *revlog.Snapshot) error { return log.WriteIndex(w, size) })
	})
}

func (s *streamClone) add(name string, size int64, write func(io.Writer) error) {
	s.files = append(s.files, streamFile{name, size, write})
	s.bytes += size
}

// addPhases adds the phase roots. A publishing server leaves them out: all
// that it sends is public.
func (s *streamClone) addPhases() {
	b := store.EncodePhaseRoots(s.view.PhaseRoots())
	s.add("phaseroots", int64(len(b)), func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// addMarkers adds the obsolescence markers, which hide what is hidden.
func (s *streamClone) addMarkers() { s.add("obsstore", s.view.MarkerBytes(), s.view.WriteMarkers) }

// writeV2 writes the payload of a stream2 part: for each file the letter of
// its place ("s", the store), the lengths of its name and of its content as
// varints, the name, the content.
func (s *streamClone) writeV2(ctx context.Context, w io.Writer) error {
	for _, f := range s.files {
		head := []byte{'s'}
		head = binary.AppendUvarint(head, uint64(len(f.name)))
		head = binary.AppendUvarint(head, uint64(f.size))
		head = append(head, f.name...)
		if err := f.send(ctx, w, head); err != nil {
			return err
		}
	}
	return nil
}

// writeV1 writes the body of stream_out: a line with the code 0, one with the
// number of files and their size together, then for each file a line with name, NUL and size, and
// the content.
func (s *streamClone) writeV1(ctx context.Context, w io.Writer) error {
	if _, err := fmt.Fprintf(w, "0\n%d %d\n", len(s.files), s.bytes); err != nil {
		return err
	}
	for _, f := range s.files {
		head := fmt.Appendf(nil, "%s\x00%d\n", store.EncodeDir(f.name), f.size)
		if err := f.send(ctx, w, head); err != nil {
			return err
		}
	}
	return nil
}

func (f *streamFile) send(ctx context.Context, w io.Writer, head []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	return f.write(w)
}

// StreamV1 writes the body of stream_out.
func StreamV1(ctx context.Context, view *store.View, w io.Writer) error {
	s, err := newStreamClone(ctx, view)
	if err != nil {
		return err
	}
	return s.writeV1(ctx, w)
}

// stream writes the stream2 part.
func (b *bundleWriter) stream(ctx context.Context) error {
	s, err := newStreamClone(ctx, b.view)
	if err != nil {
		return err
	}
	if !b.args.Publishing {
		s.addPhases()
	}
	if b.view.HasMarkers() {
		s.addMarkers()
	}
	reqs := bundle2.Quote(strings.Join(b.view.Repo().Requirements().Streamed(), ","))
	part, err := b.out.Part("stream2", true, bundle2.Mandatory(
		"bytecount", strconv.FormatInt(s.bytes, 10),
		"filecount", strconv.Itoa(len(s.files)),
		"requirements", reqs)...)
	if err != nil {
		return err
	}
	return b.finishPart(part, s.writeV2(ctx, part))
}
