package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"vcsd/internal/vfs"
)

const (
	// A single member needs no time for elections: it wins each at once.
	singleTickMs, singleElectionMs = 10, 100
	// Members on several machines do.
	clusterTickMs, clusterElectionMs = 100, 1000

	// readyTime bounds the start: of a single member by its disk, of one in a
	// cluster by the others, without which it isn't ready.
	readyTime = time.Minute

	// graceTime is what requests in flight get when etcd stops. Watches don't
	// end by themselves, so it is always used up if there is one.
	graceTime = 100 * time.Millisecond
)

// host runs etcd until Close or etcd's failure. The caller has the lock.
func (m *Member) host() (err error) {
	start := time.Now()
	var servers grpcServers
	var closing atomic.Bool
	if m.o.Cluster == nil {
		if err := m.makeData(&closing); err != nil {
			return m.unlessClosed(err)
		}
	}
	cfg, err := m.config(&closing)
	if err != nil {
		return err
	}
	cfg.ServiceRegister = servers.add
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer func() {
		m.hosting.Store(false)
		closing.Store(true)
		servers.stop()
		e.Close()
	}()
	if err := m.untilReady(e); err != nil {
		return m.unlessClosed(err)
	}
	// etcd asks nobody for a password: only this user may connect.
	if err := m.fs.Chmod(socketName, 0o600); err != nil {
		return err
	}
	m.hosting.Store(true)
	m.o.Log.Info("embedded etcd runs here", "dir", m.dir, "duration", time.Since(start))
	ctx, cancel := context.WithCancel(m.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { m.watchSpace(ctx, e) })
	defer wg.Wait()
	defer cancel()
	select {
	case <-m.ctx.Done():
		return nil
	case err := <-e.Err():
		return err
	case <-e.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	}
}

// unlessClosed returns an error that isn't due to Close.
func (m *Member) unlessClosed(err error) error {
	if m.ctx.Err() != nil {
		return nil
	}
	return err
}

// grpcServers are those of one etcd, which makes them when it is ready: that may
// be while it is being ended.
type grpcServers struct {
	mu  sync.Mutex
	all []*grpc.Server // guarded by mu
}

func (g *grpcServers) add(s *grpc.Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, s)
}

// stop ends their connections. Left to itself etcd waits five seconds and more for
// watches to end.
func (g *grpcServers) stop() {
	g.mu.Lock()
	all := g.all
	g.mu.Unlock()
	for _, s := range all {
		t := time.AfterFunc(graceTime, s.Stop)
		s.GracefulStop()
		t.Stop()
	}
}

func (m *Member) config(closing *atomic.Bool) (*embed.Config, error) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(m.dir, dataName)
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: m.socket}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ListenPeerUrls = nil // nobody calls a single member
	cfg.TickMs, cfg.ElectionMs = singleTickMs, singleElectionMs
	cfg.QuotaBackendBytes = m.o.QuotaBytes
	limit, err := vfs.MaxFileBytes()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.checkFiles(limit), fitFiles(cfg, limit)); err != nil {
		return nil, err
	}
	cfg.EnableGRPCGateway = false
	// Old values serve nobody: watches start at the present.
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = "5m"
	// Leases of outcomes must not start anew each time that the host changes.
	gate := cfg.ServerFeatureGate.(featuregate.MutableFeatureGate)
	err = gate.SetFromMap(map[string]bool{string(features.LeaseCheckpoint): true, string(features.LeaseCheckpointPersist): true})
	if err != nil {
		return nil, err
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(logCore{m.o.Log, closing}, zap.WithFatalHook(failed{})))
	if m.o.Cluster != nil {
		if err := m.o.Cluster.apply(cfg); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

func (c *Cluster) apply(cfg *embed.Config) error {
	u, err := url.Parse(c.PeerURL)
	if err != nil {
		return fmt.Errorf("peer URL %q: %w", c.PeerURL, err)
	}
	cfg.Name = c.Name
	cfg.TickMs, cfg.ElectionMs = clusterTickMs, clusterElectionMs
	cfg.ListenPeerUrls = []url.URL{*u}
	cfg.AdvertisePeerUrls = []url.URL{*u}
	cfg.InitialCluster = c.Initial
	if c.Existing {
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	if c.CertFile != "" {
		cfg.PeerTLSInfo.CertFile, cfg.PeerTLSInfo.KeyFile = c.CertFile, c.KeyFile
		cfg.PeerTLSInfo.TrustedCAFile, cfg.PeerTLSInfo.ClientCertAuth = c.CAFile, true
	}
	return nil
}
