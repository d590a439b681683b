package refs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Server says where etcd is.
type Server struct {
	// Endpoints are http, https or unix URLs of etcd's members.
	Endpoints []string
	TLS       *tls.Config // nil: no TLS
	// Username and Password authenticate; an empty name means that etcd asks
	// for none.
	Username, Password string
}

// Dial returns a Client of an etcd cluster. It doesn't wait for the
// connection, which is made anew whenever it breaks.
func Dial(ctx context.Context, s Server, o Options) (*Client, error) {
	cli, err := clientv3.New(clientv3.Config{
		Endpoints:            s.Endpoints,
		TLS:                  s.TLS,
		Username:             s.Username,
		Password:             s.Password,
		Logger:               zap.NewNop(),
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			// An embedded etcd is back within half a second.
			Backoff: grpcbackoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			// A connection stands after three ways: to a slow etcd that takes seconds.
			MinConnectTimeout: 10 * time.Second,
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %q: %w", s.Endpoints, err)
	}
	if ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), cli.Close())
	}
	return newClient(etcdKV{cli}, o), nil
}

// etcdKV is etcd as a kv.
type etcdKV struct{ cli *clientv3.Client }

func (k etcdKV) close() error { return k.cli.Close() }

func (k etcdKV) txn(ctx context.Context, t txn) (txnResult, error) {
	if ctx.Err() != nil {
		return txnResult{}, &refusedError{ctx.Err()}
	}
	resp, err := k.cli.Txn(ctx).If(etcdCmps(t.conds)...).Then(etcdOps(t.then)...).Else(etcdOps(t.els)...).Commit()
	if err != nil {
		return txnResult{}, etcdError(err)
	}
	res := txnResult{ok: resp.Succeeded, rev: resp.Header.Revision, items: make([]item, len(resp.Responses))}
	ops := t.els
	if res.ok {
		ops = t.then
	}
	for i, r := range resp.Responses {
		kvs := r.GetResponseRange().GetKvs()
		switch {
		case ops[i].kind == opGetPrefix:
			for _, kv := range kvs {
				res.list(string(kv.Key), item{kv.Value, kv.ModRevision})
			}
		case len(kvs) > 0:
			res.items[i] = item{kvs[0].Value, kvs[0].ModRevision}
		}
	}
	return res, nil
}

func etcdCmps(conds []cond) []clientv3.Cmp {
	cmps := make([]clientv3.Cmp, len(conds))
	for i, c := range conds {
		if c.value != nil {
			cmps[i] = clientv3.Compare(clientv3.Value(c.key), "=", string(c.value))
		} else {
			cmps[i] = clientv3.Compare(clientv3.ModRevision(c.key), "=", c.modRev)
		}
	}
	return cmps
}

func etcdOps(ops []op) []clientv3.Op {
	out := make([]clientv3.Op, len(ops))
	for i, o := range ops {
		switch o.kind {
		case opGet:
			out[i] = clientv3.OpGet(o.key)
		case opGetPrefix:
			out[i] = clientv3.OpGet(o.key, clientv3.WithPrefix())
		case opPut:
			out[i] = clientv3.OpPut(o.key, string(o.value), clientv3.WithLease(clientv3.LeaseID(o.lease)))
		case opDel:
			out[i] = clientv3.OpDelete(o.key)
		case opDelPrefix:
			out[i] = clientv3.OpDelete(o.key, clientv3.WithPrefix())
		}
	}
	return out
}

func (k etcdKV) grant(ctx context.Context, ttl time.Duration) (leaseID, time.Duration, error) {
	secs := int64((ttl + time.Second - 1) / time.Second)
	resp, err := k.cli.Grant(ctx, secs)
	if err != nil {
		return 0, 0, etcdError(err)
	}
	return leaseID(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

// keepAlive is KeepAliveOnce without its loop, which knows no pause.
func (k etcdKV) keepAlive(ctx context.Context, id leaseID) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lease := pb.NewLeaseClient(k.cli.ActiveConnection())
	stream, err := lease.LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err != nil {
		return 0, etcdError(err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return 0, etcdError(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		return 0, etcdError(err)
	}
	if resp.TTL <= 0 {
		return 0, errNoSession
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

func (k etcdKV) revoke(ctx context.Context, id leaseID) error {
	_, err := k.cli.Revoke(ctx, clientv3.LeaseID(id))
	if err = etcdError(err); errors.Is(err, errNoSession) {
		return nil
	}
	return err
}

func (k etcdKV) watch(ctx context.Context, prefix string) <-chan []event {
	out := make(chan []event)
	// Without a leader nothing is reported: better to hear of it.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	in := k.cli.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	go func() {
		defer close(out)
		defer cancel()
		for resp := range in {
			if resp.Err() != nil || resp.Canceled {
				break
			}
			evs := etcdEvents(resp)
			if len(evs) == 0 && !resp.Created {
				continue
			}
			select {
			case out <- evs:
			case <-ctx.Done():
			}
		}
		cancel()
		for range in {
		}
	}()
	return out
}

func etcdEvents(resp clientv3.WatchResponse) []event {
	evs := make([]event, len(resp.Events))
	for i, e := range resp.Events {
		evs[i] = event{
			key:     string(e.Kv.Key),
			deleted: e.Type == clientv3.EventTypeDelete,
			item:    item{e.Kv.Value, e.Kv.ModRevision},
		}
	}
	return evs
}

// reach asks without waiting for a connection, so that it learns why there is
// none.
func (k etcdKV) reach(ctx context.Context) error {
	status, err := pb.NewMaintenanceClient(k.cli.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	switch {
	case err == nil && status.Leader == 0:
		return rpctypes.ErrNoLeader
	case err == nil || settled(etcdError(err)):
		return nil
	}
	return err
}

// etcdError tells etcd's refusals from broken connections.
func etcdError(err error) error {
	if err == nil {
		return nil
	}
	var known rpctypes.EtcdError
	code := status.Code(err)
	if err = rpctypes.Error(err); errors.As(err, &known) {
		code = known.Code()
	}
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return errNoSession
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return err // it passes
	case errors.Is(err, rpctypes.ErrNoSpace):
		// So does this, and it doesn't tell whether the request was carried out:
		// the one that fills the database is.
		return err
	}
	switch code {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated,
		codes.ResourceExhausted, codes.Unimplemented:
		return &refusedError{err}
	}
	return err
}
