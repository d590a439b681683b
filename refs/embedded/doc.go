// Package embedded runs etcd inside vcsd. Of the processes that share a state
// directory one hosts it, the others reach it through a unix socket there; when
// the host goes, another one takes over with the same data at the same socket,
// within half a second, and clients find it again by themselves.
//
// The directory must be on a local file system. It holds etcd.lock (flock of
// the host), etcd.sock, and etcd/ (etcd's data). See doc/format/etcd-keys.md
// for what is stored.
package embedded
