package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

const (
	// alarmTime is how often the host looks whether its database is full.
	alarmTime = time.Second
	// spaceTime is the pause after it made little room: it takes no writes
	// meanwhile.
	spaceTime = time.Minute
)

// watchSpace makes room in a full database until ctx ends. Left alone, it
// refuses writes for ever, also when nobody needs what it is full of.
func (m *Member) watchSpace(ctx context.Context, e *embed.Etcd) {
	for pause := alarmTime; ctx.Err() == nil; sleep(ctx, pause) {
		pause = alarmTime
		if !isFull(e) {
			continue
		}
		before := e.Server.Backend().Size()
		err := makeRoom(ctx, e)
		left := e.Server.Backend().Size()
		if err != nil {
			m.o.Log.Error("embedded etcd is full", "bytes", before, "err", err)
		} else {
			m.o.Log.Warn("embedded etcd was full", "bytes", before, "left", left)
		}
		if err != nil || left > before/4*3 {
			pause = spaceTime
		}
	}
}

// isFull reports whether the database of this member refuses writes.
func isFull(e *embed.Etcd) bool {
	for _, a := range e.Server.Alarms() {
		if a.GetAlarm() == pb.AlarmType_NOSPACE && a.GetMemberID() == uint64(e.Server.MemberID()) {
			return true
		}
	}
	return false
}

// makeRoom drops old values, gives their space back, and has the database take
// writes again.
func makeRoom(ctx context.Context, e *embed.Etcd) error {
	compact := &pb.CompactionRequest{Revision: e.Server.KV().Rev(), Physical: true}
	if _, err := e.Server.Compact(ctx, compact); err != nil && !errors.Is(err, mvcc.ErrCompacted) {
		return fmt.Errorf("compact: %w", err)
	}
	if err := e.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	disarm := &pb.AlarmRequest{
		Action: pb.AlarmRequest_DEACTIVATE, MemberID: uint64(e.Server.MemberID()), Alarm: pb.AlarmType_NOSPACE,
	}
	_, err := e.Server.Alarm(ctx, disarm)
	return err
}
