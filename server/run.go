package server

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"vcsd/hg"
)

// Version is what `vcsd version` prints. It is set when a release is built.
var Version = "development"

// commandLine is what vcsd can be told to do.
type commandLine struct {
	Serve   serveCmd   `cmd:"" help:"Serve repositories over HTTP, like hg serve."`
	Init    initCmd    `cmd:"" help:"Make an empty repository."`
	Token   tokenCmd   `cmd:"" help:"Make a token that takes the place of a user's password."`
	Verify  verifyCmd  `cmd:"" help:"Check that repositories are sound, also while they are served."`
	Recover recoverCmd `cmd:"" help:"Make anew what the coordination service lost of repositories."`
	Version versionCmd `cmd:"" help:"Print the version."`

	Flag kong.VersionFlag `name:"version" help:"Print the version."`
}

// streams are where a command reads its surroundings from and writes to.
type streams struct {
	ctx            context.Context
	stdout, stderr io.Writer
}

// aborted is the exit code of what failed, as of hg: scripts that start a
// server look at it.
const aborted = 255

// Run does what args say, without the program's name. It returns the exit
// code: 0 done, 255 failed, 2 misused; an *exitError tells another one. ctx ends a
// server.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var cl commandLine
	exited, code := false, 0
	parser, err := kong.New(&cl,
		kong.Name("vcsd"), kong.Description("A push server for Mercurial repositories."),
		kong.Vars{"version": "vcsd " + Version},
		kong.Writers(stdout, stderr), kong.Exit(func(c int) { exited, code = true, c }),
	)
	if err != nil {
		panic(err) // the struct above is wrong
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:], "--help")
	}
	parsed, err := parser.Parse(args)
	if exited {
		return code
	}
	if err != nil {
		fmt.Fprintf(stderr, "vcsd: %v\n(see \"vcsd --help\" and \"vcsd serve --help\")\n", err)
		return 2
	}
	if err := parsed.Run(&streams{ctx, stdout, stderr}); err != nil {
		return failed(err, stderr)
	}
	return 0
}

// An exitError ends vcsd with a code of its own.
type exitError struct {
	code int
	err  error // nil: all has been said
}

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d: %v", e.code, e.err) }

// Unwrap returns what is told.
func (e *exitError) Unwrap() error { return e.err }

// failed tells what went wrong, and returns the exit code.
func failed(err error, stderr io.Writer) int {
	code := aborted
	var exit *exitError
	if errors.As(err, &exit) {
		code, err = exit.code, exit.err
	}
	if err != nil {
		fmt.Fprintf(stderr, "abort: %v\n", err)
		var abort *hg.Abort
		if errors.As(err, &abort) && abort.Hint != "" {
			fmt.Fprintf(stderr, "(%s)\n", abort.Hint)
		}
	}
	return code
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(s *streams) error {
	_, err := fmt.Fprintf(s.stdout, "vcsd %s\n", Version)
	return err
}
