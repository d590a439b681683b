// Package obsmarker reads and writes obsolescence markers, in both versions of
// the form that the obsstore file and the obsmarkers part have in common. All
// functions may be called concurrently.
//
// Source: the comments on the formats that come with Mercurial's obsolete
// module, and experiments; pictures in doc/format/obsmarkers.md.
package obsmarker
