// Package killsweep kills a vcsd process with SIGKILL at every system call of a
// push that changes a file of the repository or of the state directory, one
// after the other, and looks at what the next process makes of it.
//
// The server runs under a seccomp filter that reports such calls to the test
// and waits for its word. So they are counted over all threads, in the order in
// which they happen, and the process dies instead of the call, or, for a write,
// after half of it. No other call is slowed, and nothing in vcsd knows of it.
//
//	go test ./e2e/killsweep -v -stride 1 -timeout 3h
package killsweep
