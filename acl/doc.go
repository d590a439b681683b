// Package acl decides who may push which changesets and bookmarks, by the
// sections acl.* of hgrc files, as the hook of hg's extension acl does (hg
// help acl). It takes the hook's place where one of Hooks is configured.
//
// Branches are checked before files, and of each, the list of those who are
// denied before that of those who are allowed. A list of those who are denied
// that is missing denies nobody; one of those allowed that is missing allows
// everybody, and one that is there and empty allows nobody.
//
// Two things differ from the extension: a bookmark that is pushed by the
// command pushkey is decided for the user who sent it, where the extension
// takes the user that the server runs as; and the key acl.config, deprecated,
// is refused.
//
// Rules and Changesets may be used by several goroutines at once.
package acl
