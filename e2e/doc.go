// Package e2e proves vcsd from outside: the vcsd command as a process, the real
// hg as its client, and requests that hg would not send.
//
// Scripts in testdata/script drive hg (see the language in
// github.com/rogpeppe/go-internal/testscript); the commands that this package
// adds are described at scriptCommands. With VCSD_TEST_SERVER=stock everything
// runs against stock hg serve instead, which proves the tests themselves; what
// stock is known to get wrong is left out then. VCSD names a command to test
// instead of the one built from this tree.
package e2e
