package refs_test

import (
	"testing"

	"vcsd/refs"
	"vcsd/refs/refstest"
)

func TestMemory(t *testing.T) {
	refstest.Run(t, refstest.Env{Bubble: true, Cluster: func(*testing.T) func(refs.Options) *refs.Client {
		return refs.NewMemory().Client
	}})
}
