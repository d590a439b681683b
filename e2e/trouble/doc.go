// Package trouble pushes through vcsd while its etcd is in trouble: a connection
// that breaks at each message of a push in turn, before or after it arrives, for a
// moment or for longer than a push waits; requests that arrive late; answers that
// take seconds; a quorum that is lost; members that are killed and come again;
// revisions that are compacted; sessions that expire. etcd runs in processes of
// its own; vcsd, a process too, reaches it through a proxy of the test, which
// knows where a message of HTTP/2 begins and ends.
//
// After each fault the repository is in the old state or in the new one, what was
// acknowledged is there, and the next push is taken. In the end hg verifies.
//
//	go test ./e2e/trouble -v -stride 1
package trouble
