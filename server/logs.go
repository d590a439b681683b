package server

import (
	"errors"
	"io"
	"log/slog"
	"os"

	"vcsd/config"
)

// logs are where a server writes what it did.
type logs struct {
	access *accessLog
	log    *slog.Logger
	files  []*os.File
}

// openLogs opens the files that flags or configuration name; "-" is a stream.
func (c *serveCmd) openLogs(s *streams, web *config.Web) (*logs, error) {
	l := new(logs)
	access, err := l.open(web.AccessLog, s.stdout)
	if err != nil {
		return nil, err
	}
	errs, err := l.open(web.ErrorLog, s.stderr)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.access = &accessLog{w: access}
	level := slog.LevelWarn
	if c.Verbose || c.Debug {
		level = slog.LevelInfo
	}
	l.log = slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: level}))
	return l, nil
}

func (l *logs) open(name string, std io.Writer) (io.Writer, error) {
	if name == "" || name == "-" {
		return std, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	l.files = append(l.files, f)
	return f, nil
}

// Close closes the files.
func (l *logs) Close() error {
	var err error
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
