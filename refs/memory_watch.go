package refs

import (
	"context"
	"strings"
	"sync"
)

// memWatcher queues events for one receiver, without bound.
type memWatcher struct {
	prefix string
	wake   chan struct{} // has room for one

	mu    sync.Mutex
	queue []event // guarded by mu
}

// offer queues those of events that are watched.
func (w *memWatcher) offer(events []event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		if strings.HasPrefix(e.key, w.prefix) {
			w.queue = append(w.queue, e)
		}
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *memWatcher) take() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.queue
	w.queue = nil
	return events
}

func (k memKV) watch(ctx context.Context, prefix string) <-chan []event {
	m, out := k.m, make(chan []event)
	w := &memWatcher{prefix: prefix, wake: make(chan struct{}, 1)}
	m.mu.Lock()
	m.watchers[w] = true
	m.mu.Unlock()
	go func() {
		defer close(out)
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.watchers, w)
		}()
		w.run(ctx, out)
	}()
	return out
}

func (w *memWatcher) run(ctx context.Context, out chan<- []event) {
	events := []event{}
	for {
		select {
		case out <- events:
		case <-ctx.Done():
			return
		}
		for events = nil; len(events) == 0; events = w.take() {
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}
