package kernel

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Both ways of accounting see the work and the memory of a child's child.
func TestGroup(t *testing.T) {
	for _, g := range []*Group{NewGroup(fmt.Sprintf("vcsd-kernel-test-%d", os.Getpid())), {}} {
		t.Run(g.Source(), func(t *testing.T) {
			// The inner shell burns 100 ms at least, then waits for the end.
			cmd := exec.Command("sh", "-c", `sh -c 'x=$(head -c 20000000 /dev/zero | tr "\0" x | md5sum | md5sum); i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; read line'; true`)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Start(cmd); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "done\n" {
				t.Fatalf("child said %q, %v", line, err)
			}
			if cpu, err := g.CPU(); err != nil || cpu < 50*time.Millisecond || cpu > time.Minute {
				t.Errorf("CPU = %v, %v", cpu, err)
			}
			peak, err := g.Peak()
			if err != nil || peak < 1<<20 {
				t.Errorf("Peak = %d, %v", peak, err)
			}
			if err := g.ResetPeak(); err != nil {
				t.Error(err)
			}
			if again, err := g.Peak(); err != nil || again > peak {
				t.Errorf("Peak = %d after %d and a reset, %v", again, peak, err)
			}
			if _, err := io.WriteString(in, "end\n"); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSyncTime(t *testing.T) {
	if d, err := SyncTime(t.TempDir(), 3); err != nil || d <= 0 {
		t.Errorf("SyncTime = %v, %v", d, err)
	}
}
