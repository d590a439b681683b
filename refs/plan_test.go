package refs

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// TestPlanLimits plans batches of all sizes about the limit: no transaction
// exceeds it, and each key is written once.
func TestPlanLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewMemory().Client(Options{MaxTxnOps: 16})
		defer c.Close()
		for leased := range 24 {
			for _, unleased := range []int{0, 1, 20} {
				for _, outcomes := range []int{0, 5, 13, 14, 15, 40} {
					checkPlan(t, c, leased, unleased, outcomes)
				}
			}
		}
	})
}

func checkPlan(t *testing.T, c *Client, leased, unleased, outcomes int) {
	repo := RepoID(fmt.Sprintf("%d-%d-%d", leased, unleased, outcomes))
	p := &publication{c: c, st: c.repo(repo), Publication: Publication{Repo: repo, New: Tip{Seq: 1}}}
	for i := range leased {
		l, err := c.Acquire(t.Context(), repo, []string{fmt.Sprint("leased ", i)})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release(t.Context())
		p.Leases = append(p.Leases, l)
		p.Heads = append(p.Heads, HeadChange{l.branches[0], []byte("h")})
	}
	for i := range unleased {
		p.Heads = append(p.Heads, HeadChange{fmt.Sprint("unleased ", i), []byte("h")})
	}
	for i := range outcomes {
		p.Outcomes = append(p.Outcomes, Outcome{Key: [32]byte{byte(i)}})
	}
	pl := p.makePlan()
	txns := []txn{pl.first}
	for _, f := range pl.followUps(1) {
		txns = append(txns, f.txn)
	}
	written := map[string]int{}
	for i, x := range txns {
		if n := max(len(x.conds), len(x.then), len(x.els)); n > 16 {
			t.Errorf("%s: transaction %d has %d operations, at most 16 are possible", repo, i, n)
		}
		for _, o := range x.then {
			written[o.key]++
		}
		guarded := slices.ContainsFunc(x.conds, func(c cond) bool { return c.key == p.c.keys.witness(repo, p.c.id) })
		if !guarded {
			t.Errorf("%s: transaction %d doesn't compare the witness", repo, i)
		}
	}
	if want := 2 + 2*leased + unleased + outcomes; len(written) != want {
		t.Errorf("%s: %d keys are written, want %d", repo, len(written), want)
	}
	for key, n := range written {
		if n != 1 {
			t.Errorf("%s: key %q is written %d times", repo, key, n)
		}
	}
}
