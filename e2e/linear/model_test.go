package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// An input is what a client asks of one register, a bookmark or a branch's
// head. Registers don't concern each other, so each is checked alone.
type input struct {
	register string
	write    bool
	old, new string // of a write, which is to succeed only on old; empty is none
	byKey    bool   // it is a pushkey, which succeeds on new too, as in hg
}

// An output is what it was told.
type output struct {
	value  string // of a read
	result result // of a write
}

// A result is how a write ended.
type result int

const (
	done    result = iota
	refused        // the register was not old
	unknown        // no answer, or one that leaves it open: perhaps it is done, perhaps later
)

// register is the model: a value that is read, and compared and set.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, o := range history {
			name := o.Input.(input).register
			parts[name] = append(parts[name], o)
		}
		var all [][]porcupine.Operation
		for _, p := range parts {
			all = append(all, p)
		}
		return all
	},
	// The value is not known before the first read of the setup.
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		s, i, o := state.(string), in.(input), out.(output)
		fits := i.old == s || i.byKey && i.new == s
		switch {
		case !i.write:
			return o.value == s, s
		case o.result == refused:
			return !fits, s
		case fits:
			return true, i.new
		default:
			// One of unknown result ends at the end of time: that it never
			// happened is as good as that it comes last, too late.
			return o.result == unknown, s
		}
	},
	DescribeOperation: func(in, out any) string {
		i, o := in.(input), out.(output)
		if !i.write {
			return fmt.Sprintf("read %.8s", o.value)
		}
		return fmt.Sprintf("%.8s to %.8s: %s", i.old, i.new, [...]string{"done", "refused", "unknown"}[o.result])
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%.8s", state) },
}

// forever is the end of an operation of unknown result.
const forever = math.MaxInt64

// settled returns the history with what the last look showed: a value that a
// branch's head had once is a changeset that is there for ever. A push of
// unknown result that is not there has not happened, and one that is there has.
func settled(history []porcupine.Operation, there func(node string) bool) []porcupine.Operation {
	var out []porcupine.Operation
	for _, o := range history {
		i, res := o.Input.(input), o.Output.(output)
		if i.write && res.result == unknown && isBranch(i.register) {
			if !there(i.new) {
				continue
			}
			o.Output = output{result: done}
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return out
}
