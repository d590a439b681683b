package server

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"vcsd/acl"
	"vcsd/config"
	"vcsd/hg"
	"vcsd/hook"
	"vcsd/ingest"
	"vcsd/wire"
)

// newHooks returns what runs the hooks of the repository whose root is at the
// absolute path root. Those of the acl extension are this server's own.
func newHooks(conf *config.Config, root string, o hook.Options) *hook.Runner {
	o.Native = make(map[string]hook.Native)
	for _, command := range acl.Hooks() {
		o.Native[strings.TrimPrefix(command, "python:")] = aclHook(acl.New(conf, root, nil))
	}
	return hook.New(conf, root, o)
}

// aclHook does what the hook of the acl extension does.
func aclHook(rules *acl.Rules) hook.Native {
	return func(_ context.Context, call hook.Call, _ io.Writer) error {
		if err := acl.CheckPoint(string(call.Point)); err != nil {
			return err
		}
		if call.Point == hook.PrePushkey {
			if call.Vars["NAMESPACE"] != "bookmarks" {
				return nil
			}
			return rules.Bookmark(call.User, call.Vars["KEY"], call.Vars["NEW"])
		}
		if !rules.Applies(call.Vars["SOURCE"]) || call.Changesets == nil {
			return nil
		}
		check, err := rules.Changesets(call.User)
		if err != nil {
			return err
		}
		for c, err := range call.Changesets {
			if err == nil {
				err = check.Check(c.Node, c.Branch, c.Files)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// logFaults logs what keeps hooks from being run. Those that guard something
// refuse it.
func logFaults(log *slog.Logger, r *hook.Runner) {
	for _, p := range append(hook.ReadPoints(), hook.PushPoints()...) {
		consequence := "it is passed over"
		if p.Vetoes() {
			consequence = "what it guards is refused"
		}
		for _, reason := range r.Faults(p) {
			log.Warn("hook can't be run", "reason", reason, "consequence", consequence)
		}
	}
}

// hookFault refuses pushes before they are sent, if a hook can't be run that
// one could come to. What others guard is refused when it comes to them.
func (s *settings) hookFault(perm wire.Permission) error {
	if perm != wire.Push {
		return nil
	}
	return s.hooks.Check(hook.PushPoints()...)
}

// pushHooks are those to be run in pushes; nil if there are none.
func (r *repository) pushHooks() (*ingest.Hooks, error) {
	s, err := r.settings()
	if err != nil || !s.hooks.Has(hook.PushPoints()...) {
		return nil, err
	}
	return &ingest.Hooks{Runner: s.hooks, PushkeyCompat: s.server.BookmarksPushkeyCompat, PushVars: s.exchange.PushVars}, nil
}

// readHook runs the hooks of a point that readers come to. What they print
// goes to the log, as it goes to the terminal of hg serve.
func (r *repository) readHook(ctx context.Context, point hook.Point, vars func() hook.Vars) error {
	s, err := r.settings()
	if err != nil || !s.hooks.Has(point) {
		return err
	}
	var out strings.Builder
	err = s.hooks.Run(ctx, hook.Call{Point: point, Vars: vars()}, &out)
	if out.Len() > 0 {
		r.log.WarnContext(ctx, "hook output", "point", string(point), "output", out.String())
	}
	return err
}

// readHooks tells hooks of changesets that are sent.
type readHooks struct{ repo *repository }

// Before implements outgoing.Hooks.
func (h readHooks) Before(ctx context.Context) error {
	return h.repo.readHook(ctx, hook.PreOutgoing, hook.Outgo)
}

// After implements outgoing.Hooks. What was sent is sent: that a hook didn't run
// is for the log.
func (h readHooks) After(ctx context.Context, first hg.Node) {
	err := h.repo.readHook(ctx, hook.Outgoing, func() hook.Vars { return hook.OutgoFrom(first) })
	if err != nil {
		h.repo.log.WarnContext(ctx, "hook not run", "point", string(hook.Outgoing), "error", err)
	}
}
