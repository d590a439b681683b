package hook

import (
	"context"
	"errors"
	"fmt"
	"io"

	"vcsd/hg"
)

// A Native is a hook that this process runs by itself in place of one in
// Python. What it writes to out reaches the client. Its error refuses what the
// hook guards, if the point is one that vetoes: an *hg.Abort in its own words,
// any other in general ones. It is called by several goroutines at once.
type Native func(ctx context.Context, call Call, out io.Writer) error

// A Changeset is what a Native is shown of a new changeset. Its bytes are as
// they stand there, in whatever encoding.
type Changeset struct {
	Node   hg.Node
	User   string
	Branch string
	Files  []string
}

// runNative runs a hook in this process, and says of its failure what hg says
// of an exception.
func (c *command) runNative(ctx context.Context, call Call, out io.Writer) error {
	err := c.native(ctx, call, out)
	if err == nil || ctx.Err() != nil {
		return err
	}
	var abort *hg.Abort
	if errors.As(err, &abort) {
		_, werr := fmt.Fprintf(out, "error: %s hook failed: %s\n", c.name, abort.Message)
		return errors.Join(werr, abort)
	}
	return fmt.Errorf("%s hook: %w", c.name, err)
}
