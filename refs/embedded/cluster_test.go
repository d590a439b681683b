package embedded_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"vcsd/refs"
	"vcsd/refs/embedded"
)

// TestCluster loses one of three machines: the other two go on.
func TestCluster(t *testing.T) {
	var urls, initial []string
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		urls = append(urls, "http://"+l.Addr().String())
		initial = append(initial, fmt.Sprintf("m%d=%s", i, urls[i]))
		l.Close() // etcd takes it
	}
	members := make([]*embedded.Member, 3)
	var wg sync.WaitGroup
	for i := range members {
		dir := tempDir(t)
		wg.Go(func() {
			m, err := embedded.Join(t.Context(), dir, embedded.Options{Cluster: &embedded.Cluster{
				Name: fmt.Sprintf("m%d", i), PeerURL: urls[i], Initial: strings.Join(initial, ","),
			}})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = m.Close() })
			members[i] = m
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	x, y := dial(t, members[0].Endpoint(), refs.Options{}), client(t, members[1].Endpoint(), refs.Options{})
	tip := publish(t, x, refs.Tip{})
	tips := y.WatchTips(t.Context(), "repo")
	if got := <-tips; got != tip {
		t.Fatalf("told seq %d, want %d", got.Seq, tip.Seq)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := members[0].Close(); err != nil {
		t.Fatal(err)
	}
	tip = publish(t, y, tip)
	for got := range tips {
		if got == tip {
			break
		}
	}
}
