// Package config reads hgrc files as Mercurial does (hg help config), and turns
// the keys that matter to a server into checked structs.
//
// A Config is immutable: deriving one for a repository or with overrides
// leaves the original alone and shares what it can. A Loader and a Config may
// be used concurrently.
package config
