package broken

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"vcsd/internal/hgtest"
)

func TestMain(m *testing.M) { hgtest.Main(m) }

// Each proof fails where what it proves is broken.
func TestProofsCanFail(t *testing.T) {
	if hgtest.UseStock() {
		t.Skip("stock hg has no builds")
	}
	for _, tt := range []struct {
		name, tag string
		command   []string // of go
		inTest    bool     // what is broken is built into the test; else it is the server
		want      string   // in its output
	}{
		{
			"records are not synced", "broken_nosync",
			[]string{"test", "-count=1", "-run", "^TestCrash$/^small_push_to_an_old_file$/^power_cut", "./ingest"},
			true, "operation",
		},
		{
			"the marker comes before the writes", "broken_order",
			[]string{"test", "-count=1", "-run", "^TestKillSweep$", "./e2e/killsweep", "-case", "split", "-stride", "3"},
			false, "killed at ",
		},
		{
			"leases are trusted", "broken_lease",
			[]string{"test", "-count=1", "-run", "^TestLinearizable$", "./e2e/linear", "-duration", "30s"},
			false, "want linearizable",
		},
		{
			"an answer that is missing is taken for success", "broken_answer",
			[]string{"test", "-count=1", "-run", "^TestTrouble$/^all$/^cut$", "./e2e/trouble", "-stride", "1"},
			false, "takes no pushes at the moment",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			if out, err := command(t, tt.tag, tt.inTest, tt.command).CombinedOutput(); err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("go %s with %s: %v, want a failure that tells %q\n%s", strings.Join(tt.command, " "), tt.tag, err, tt.want, out)
			} else {
				t.Logf("noticed in %v:\n%s", time.Since(start).Round(time.Second), firstLine(string(out), tt.want))
			}
		})
	}
}

// command returns the go command that runs a proof on the broken build.
func command(t *testing.T, tag string, inTest bool, args []string) *exec.Cmd {
	t.Helper()
	if inTest {
		return hgtest.Go(t, append([]string{args[0], "-tags", tag}, args[1:]...)...)
	}
	vcsd := hgtest.VcsdWith(t, tag)
	cmd := hgtest.Go(t, args...)
	cmd.Env = append(cmd.Environ(), "VCSD="+vcsd)
	return cmd
}

// firstLine returns the first line with what was wanted.
func firstLine(out, want string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, want) {
			return line
		}
	}
	return ""
}
