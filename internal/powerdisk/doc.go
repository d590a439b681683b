// Package powerdisk makes a real file system on a disk of which a test can cut the
// power: a file of a FUSE file system in the test's own process, behind a loop
// device, with ext4 on it. It knows what was written since the last flush, and a
// cut loses any of that, down to single sectors.
//
// It takes root, /dev/fuse and loop devices; where they are missing tests are
// skipped. A Disk may be cut while programs use it.
package powerdisk
