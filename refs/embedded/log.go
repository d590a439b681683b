package embedded

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// logCore hands etcd's errors on and drops what is below: it says a lot. When
// it is closing all its connections break, which it takes for errors.
type logCore struct {
	log     *slog.Logger
	closing *atomic.Bool
}

// firstStart is an error that each new database reports once, before its first
// term is on disk. etcd tries again.
const firstStart = "failed to update storage version"

// Enabled implements zapcore.Core.
func (c logCore) Enabled(l zapcore.Level) bool { return l >= zapcore.ErrorLevel }

// With implements zapcore.Core.
func (c logCore) With(fields []zapcore.Field) zapcore.Core {
	return logCore{c.log.With(attrs(fields)...), c.closing}
}

// Sync implements zapcore.Core.
func (c logCore) Sync() error { return nil }

// Check implements zapcore.Core.
func (c logCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if c.closing.Load() && e.Level < zapcore.PanicLevel || e.Message == firstStart {
		return nil
	}
	args := append([]any{"message", e.Message, "level", e.Level.String()}, attrs(fields)...)
	c.log.Log(context.Background(), slog.LevelError, "embedded etcd", args...)
	return nil
}

func attrs(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	var out []any
	for _, f := range fields {
		f.AddTo(enc)
	}
	for k, v := range enc.Fields {
		out = append(out, slog.Any(k, v))
	}
	return out
}

// failed ends the goroutine in which etcd gives up, for example because its
// disk failed. By default it would end the process, and reads with it; so only
// pushes fail.
type failed struct{}

// OnWrite implements zapcore.CheckWriteHook.
func (failed) OnWrite(*zapcore.CheckedEntry, []zapcore.Field) { runtime.Goexit() }
