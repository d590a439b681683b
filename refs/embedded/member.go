package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"vcsd/internal/vfs"
)

const (
	lockName   = "etcd.lock"
	socketName = "etcd.sock"
	dataName   = "etcd"

	// askTime is how often a process that doesn't host looks whether it
	// should, and whether the host answers.
	askTime = 50 * time.Millisecond

	// retryTime is the pause after etcd failed.
	retryTime = time.Second

	// maxSocketPath is what fits in a socket's address on Linux, less one for
	// the zero at its end.
	maxSocketPath = 107
)

// Options say how etcd is run. The zero value is a cluster of one.
type Options struct {
	// QuotaBytes bounds etcd's database. 0 means 2 GiB; at least 16 MiB.
	QuotaBytes int64
	// Cluster joins the etcds of several machines; nil means a single one.
	Cluster *Cluster
	// Log gets changes of the host and etcd's errors. nil means none.
	Log *slog.Logger
}

// A Cluster is the part of this machine in a cluster of embedded etcds. All
// processes of the machine give the same.
type Cluster struct {
	Name    string // of this machine's member
	PeerURL string // where it is reached by the others: http or https, with an address
	Initial string // name=URL for each member, with commas between, as in etcd's --initial-cluster
	// Existing is set for a machine that joins a cluster which runs already.
	Existing bool
	// CertFile, KeyFile and CAFile are for PeerURLs with https: each member
	// shows its certificate and checks the others'.
	CertFile, KeyFile, CAFile string
}

// A Member is this process's part in the embedded etcd.
type Member struct {
	dir     string
	socket  string // a path to etcd.sock, short enough for an address
	dirFD   int    // what socket leads through; -1 if that is the directory's name
	fs      vfs.FS
	o       Options
	chosen  atomic.Bool // this process has the lock
	hosting atomic.Bool // and etcd is ready

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	ended  chan struct{} // closed when run has ended
}

// Join makes this process a member at the state directory dir, and returns
// once etcd answers there: hosted here, or by another process.
func Join(ctx context.Context, dir string, o Options) (*Member, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.QuotaBytes == 0 {
		o.QuotaBytes = 2 << 30
	}
	o.QuotaBytes = max(o.QuotaBytes, 16<<20)
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	m := &Member{dir: dir, fs: vfs.NewOS(dir), o: o, ended: make(chan struct{})}
	if err := m.fs.MkdirAll(""); err != nil {
		return nil, err
	}
	if err := m.findSocket(); err != nil {
		return nil, err
	}
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, 1)
	go m.run(failed)
	if err := m.await(ctx, failed); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// findSocket finds a path to the socket that fits an address: a long one is
// shortened by an open descriptor of the directory.
func (m *Member) findSocket() error {
	m.dirFD, m.socket = -1, filepath.Join(m.dir, socketName)
	if len(m.socket) <= maxSocketPath {
		return nil
	}
	fd, err := unix.Open(m.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %q: %w", m.dir, err)
	}
	m.dirFD, m.socket = fd, fmt.Sprintf("/proc/self/fd/%d/%s", fd, socketName)
	return nil
}

// Endpoint returns the URL of etcd for clients in this process. It stays the
// same when the host changes, and is valid until Close.
func (m *Member) Endpoint() string { return "unix://" + m.socket }

// Hosting reports whether etcd runs in this process.
func (m *Member) Hosting() bool { return m.hosting.Load() }

// Close leaves. If this process hosts, etcd is stopped cleanly, and another
// process takes over. Close the clients first.
func (m *Member) Close() error {
	m.cancel()
	<-m.ended
	if m.dirFD < 0 {
		return nil
	}
	fd := m.dirFD
	m.dirFD = -1
	return unix.Close(fd)
}

// await returns when etcd answers, or the first attempt to host has failed.
func (m *Member) await(ctx context.Context, failed <-chan error) error {
	tick := time.NewTicker(askTime / 10)
	defer tick.Stop()
	for {
		// Asked in this order, what answers isn't our own etcd at its start.
		if answers := m.answers(); m.hosting.Load() || answers && !m.chosen.Load() {
			return nil
		}
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("no etcd answers at %q: %w", m.dir, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// answers reports whether somebody listens at the socket. A host that is
// starting does before it is ready; a client's requests wait.
func (m *Member) answers() bool {
	if m.chosen.Load() {
		return false
	}
	conn, err := net.DialTimeout("unix", m.socket, askTime)
	if err != nil {
		return false
	}
	conn.Close() // nothing was sent
	return true
}

// run hosts whenever nobody else does, until Close. The first failure to host
// goes to failed, if it is received.
func (m *Member) run(failed chan<- error) {
	defer close(m.ended)
	for m.ctx.Err() == nil {
		pause := askTime
		lock, err := m.fs.Lock(lockName)
		if err == nil {
			m.chosen.Store(true)
			err = errors.Join(m.host(), lock.Close())
			m.chosen.Store(false)
		}
		if err != nil && !errors.Is(err, vfs.ErrLocked) {
			m.o.Log.Error("embedded etcd failed", "dir", m.dir, "err", err)
			select {
			case failed <- fmt.Errorf("embedded etcd in %q: %w", m.dir, err):
			default:
			}
			pause = retryTime
		}
		sleep(m.ctx, pause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
