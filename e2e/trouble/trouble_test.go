package trouble

import (
	"flag"
	"testing"
	"time"
)

var stormTime = flag.Duration("stormtime", 3*time.Second, "how long TestTrouble/all/storm lasts")

// TestTrouble makes all the trouble, and counts it.
func TestTrouble(t *testing.T) {
	a := new(tally)
	t.Run("all", func(t *testing.T) {
		for _, mode := range cutModes {
			t.Run(mode.name, func(t *testing.T) {
				t.Parallel()
				cuts(t, a, mode)
			})
		}
		for name, run := range map[string]func(*testing.T, *tally){
			"leases": leases, "hooks": hooks, "compacted": compacted, "quorum": quorum, "restarted": restarted,
			"slow": slow, "elsewhere": elsewhere,
			"storm": func(t *testing.T, a *tally) { storm(t, a, *stormTime) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, a)
			})
		}
	})
	t.Logf("etcd trouble: %v", a)
}
