// Package livefile reads small files again when they change: passwords,
// certificates and the like, which somebody edits while a server runs.
package livefile
