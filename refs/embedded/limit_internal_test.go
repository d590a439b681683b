package embedded

import (
	"math"
	"testing"
)

// TestQuotaFor follows what etcd and its database make of a quota.
func TestQuotaFor(t *testing.T) {
	if got := quotaFor(math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("quota without a limit = %d, want none", got)
	}
	for limit := int64(minFileBytes); limit < 1<<40; limit += limit / 7 {
		quota := quotaFor(limit)
		size := int64(32 << 10) // of the map
		for size < quota+quota/10 {
			size *= 2
		}
		if size > stepBytes {
			size = quota + quota/8 + stepBytes // of the file, as it grows
		}
		if size > limit {
			t.Errorf("limit %d: quota %d makes a file of %d", limit, quota, size)
		}
		if quota < limit/6 {
			t.Errorf("limit %d: quota %d", limit, quota)
		}
	}
}
