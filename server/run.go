package server

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// Version is what `vcsd version` prints. It is set when a release is built.
var Version = "development"

// commandLine is what vcsd can be told to do.
type commandLine struct {
	Serve   serveCmd   `cmd:"" help:"Serve repositories over HTTP, like hg serve."`
	Init    initCmd    `cmd:"" help:"Make an empty repository."`
	Token   tokenCmd   `cmd:"" help:"Make a token that takes the place of a user's password."`
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
// code: 0 done, 255 failed, 2 misused. ctx ends a server.
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
		fmt.Fprintf(stderr, "abort: %v\n", err)
		return aborted
	}
	return 0
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(s *streams) error {
	_, err := fmt.Fprintf(s.stdout, "vcsd %s\n", Version)
	return err
}
