package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"vcsd/auth"
	"vcsd/config"
)

type tokenCmd struct {
	User    string   `arg:"" help:"Whose token it is."`
	Push    bool     `help:"Good for pushing too, not for reading alone."`
	Repos   []string `placeholder:"GLOB" help:"Good for repositories at these paths only (may be repeated; ** crosses slashes)."`
	Expires string   `placeholder:"WHEN" help:"When it ends: a day (2030-12-31) or a time from now (90d, 12h)."`
	File    string   `placeholder:"FILE" help:"File to add it to (default: vcsd.tokens of the configuration)."`
	Config  []string `sep:"none" placeholder:"SECT.KEY=VAL" help:"Set a configuration value (may be repeated)."`
}

// Run makes a token, adds it to the file and prints it.
func (c *tokenCmd) Run(s *streams) error {
	file, err := c.file()
	if err != nil {
		return err
	}
	expires, err := parseExpiry(c.Expires, time.Now())
	if err != nil {
		return err
	}
	token, line, err := auth.NewToken(auth.Grant{User: c.User, Push: c.Push, Repos: c.Repos, Expires: expires})
	if err != nil {
		return err
	}
	if err := appendLine(file, line); err != nil {
		return err
	}
	fmt.Fprintf(s.stderr, "added to %s, which keeps only a hash: the token is shown this once\n", file)
	fmt.Fprintf(s.stderr, "to revoke it, delete the line that begins with %.12s\n", line)
	_, err = fmt.Fprintln(s.stdout, token)
	return err
}

// file returns where the token goes.
func (c *tokenCmd) file() (string, error) {
	if c.File != "" {
		return c.File, nil
	}
	conf, err := (&serveCmd{Config: c.Config}).systemConfig(config.NewLoader())
	if err != nil {
		return "", err
	}
	v, err := conf.Vcsd()
	if err == nil && v.Tokens == "" {
		err = errors.New("no file for tokens: set vcsd.tokens, or --file")
	}
	return v.Tokens, err
}

// parseExpiry reads a day, which counts to its end, or a length of time.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return day.AddDate(0, 0, 1), nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 {
			return now.AddDate(0, 0, n), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("--expires %s: neither a day nor a time from now", s)
	}
	return now.Add(d), nil
}

// appendLine adds a line to a file that only its owner may read.
func appendLine(name, line string) (err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// Somebody may have edited the file and left its last line without an end.
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if last := make([]byte, 1); end > 0 {
		if _, err := f.ReadAt(last, end-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = "\n" + line
		}
	}
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	return f.Sync()
}
