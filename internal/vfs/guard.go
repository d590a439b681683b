package vfs

import (
	"fmt"
	"runtime/debug"
)

// A FaultError is an access to a page of a mapping that has no bytes: the
// file was cut, or the disk can't be read.
type FaultError struct {
	Addr uintptr
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("fault in a mapped file at address %#x", e.Addr)
}

// Guard runs f, which reads a mapping, and returns a *FaultError if a page of
// the mapping can't be read. It guards f's own goroutine only. Other panics
// pass through. Guards may be nested.
func Guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// The runtime gives an address only to faults of memory that Go doesn't
		// own; a nil pointer has none and remains a bug.
		if fault, ok := r.(interface{ Addr() uintptr }); ok {
			err = &FaultError{Addr: fault.Addr()}
			return
		}
		panic(r)
	}()
	f()
	return nil
}
