package wire

import (
	"context"
	"fmt"
	"strings"

	"vcsd/hg"
)

// batch runs several commands on one view. Its answer is theirs, joined. An
// error of one is the error of all.
func batch(ctx context.Context, c *call) ([]byte, error) {
	var out []byte
	n := 0
	for item := range strings.SplitSeq(c.args["cmds"], ";") {
		if n++; n > c.limits.MaxBatch {
			return nil, fmt.Errorf("batch of more than %d commands: %w", c.limits.MaxBatch, hg.ErrTooLarge)
		}
		answer, err := c.batched(ctx, item)
		if err != nil {
			return nil, err
		}
		if n > 1 {
			out = append(out, ';')
		}
		out = appendBatchEscaped(out, answer)
		if int64(len(out)) > c.limits.MaxBatchBytes {
			return nil, fmt.Errorf("batch whose answers have more than %d bytes: %w", c.limits.MaxBatchBytes, hg.ErrTooLarge)
		}
	}
	return out, nil
}

func (c *call) batched(ctx context.Context, item string) ([]byte, error) {
	name, args, err := parseBatchItem(item, c.limits)
	if err != nil {
		return nil, err
	}
	cmd, ok := commands[name]
	if !ok {
		return nil, fmt.Errorf("%w: unknown command %q in a batch", hg.ErrMalformed, name)
	}
	if cmd.simple == nil || name == "batch" {
		return nil, fmt.Errorf("%w: command %q in a batch", hg.ErrMalformed, name)
	}
	if err := c.allow(cmd.perm); err != nil {
		return nil, err
	}
	inner := *c
	inner.name, inner.args = name, args
	return inner.simple(ctx, cmd)
}

// parseBatchItem reads "name key=value,key=value".
func parseBatchItem(item string, l Limits) (name string, args Args, err error) {
	name, rest, ok := strings.Cut(item, " ")
	if !ok {
		return "", nil, fmt.Errorf("%w: command %q in a batch has no arguments", hg.ErrMalformed, item)
	}
	args = Args{}
	for pair := range strings.SplitSeq(rest, ",") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || strings.Contains(value, "=") {
			return "", nil, fmt.Errorf("%w: argument %q in a batch", hg.ErrMalformed, pair)
		}
		if len(args) >= l.MaxArgs {
			return "", nil, fmt.Errorf("more than %d arguments: %w", l.MaxArgs, hg.ErrTooLarge)
		}
		args[unescapeBatch(key)] = unescapeBatch(value)
	}
	return name, args, nil
}

var (
	batchEscapes   = strings.NewReplacer(":", ":c", ",", ":o", ";", ":s", "=", ":e")
	batchUnescapes = strings.NewReplacer(":e", "=", ":s", ";", ":o", ",", ":c", ":")
)

func unescapeBatch(s string) string { return batchUnescapes.Replace(s) }

func appendBatchEscaped(dst, s []byte) []byte {
	return append(dst, batchEscapes.Replace(string(s))...)
}
