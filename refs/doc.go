// Package refs is what the nodes of vcsd agree on: for each repository its tip
// and the heads of its branches, who may publish to a branch at the moment,
// and which answer a payload got. It lives in etcd, or in memory for tests.
//
// A Client is one process's view. It holds one session (an etcd lease, kept
// alive in the background); branch leases hang on it. Within a process,
// waiting for a branch is first come first served, and the lock is handed on
// without asking etcd; between processes one watch per repository wakes the
// waiters. Publish moves the tip in one transaction, whose comparisons are the
// proof: nothing rests on a lease or on an earlier read.
//
// All methods of Client and Lease may be called concurrently. The keys and
// their values are described in doc/format/etcd-keys.md.
package refs
