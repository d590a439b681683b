// Command vcsd is a push server for Mercurial repositories.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"vcsd/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	// Beyond a limit of the size of files (ulimit -f) a write is to fail, not to
	// end the process. Unlike signal.Ignore, this isn't inherited by hooks.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGXFSZ)
	code := server.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
