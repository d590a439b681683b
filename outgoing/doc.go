// Package outgoing makes what clients pull: bundles of the changesets they
// lack, with the phases and bookmarks that go with them. It reads one View
// from first byte to last and sends the deltas of the store as they are
// wherever the client has their base.
package outgoing
