// Package vfs is the only way of vcsd to a file system: files, mappings, locks
// and syncs. It has the operating system, a memory file system that can lose
// power, and beside it errfs, which makes any operation fail. The operating
// system is Linux.
//
// Every FS may be used by several goroutines at once. A File may be read by
// several goroutines at once through ReadAt; all else on a File belongs to one.
package vfs
