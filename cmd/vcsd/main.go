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
	code := server.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
