package kernel

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ResetPeak makes Peak count from now on.
func (g *Group) ResetPeak() error {
	pids, err := g.pids()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		// 5 resets VmHWM.
		err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Peak returns the sum of the peaks of resident memory, in bytes, of the
// processes that run. Pages that several share count once for each.
func (g *Group) Peak() (sum int64, err error) {
	pids, err := g.pids()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				kB, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
				if err != nil {
					return 0, err
				}
				sum += kB << 10
			}
		}
	}
	return sum, nil
}
