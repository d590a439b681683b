package server

import (
	"errors"
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// What this process tells its supervisor, if that is systemd or speaks like it
// (sd_notify(3)).
const (
	isReady    = daemon.SdNotifyReady
	isStopping = daemon.SdNotifyStopping
)

// notify tells the supervisor a state, if it asked for that.
func (h *handler) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		h.log.Warn("supervisor not notified", "state", state, "error", err)
	}
}

// inherited returns the socket that the supervisor has opened for this process,
// or nil (sd_listen_fds(3)).
func inherited() (net.Listener, error) {
	all, err := activation.Listeners()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if l, ok := all[0].(*net.TCPListener); ok && len(all) == 1 {
		return l, nil
	}
	for _, l := range all {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return nil, errors.Join(fmt.Errorf("inherited %d sockets, want one that listens for TCP", len(all)), err)
}
