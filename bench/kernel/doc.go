// Package kernel asks the kernel what processes have cost: processor time and
// memory of a process with all that it started, and what a disk's sync takes.
//
// Source: proc(5), cgroups(7).
package kernel
