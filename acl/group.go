package acl

import (
	"strings"

	"vcsd/internal/vfs"
)

// maxGroupBytes bounds the file of the operating system's groups.
const maxGroupBytes = 16 << 20

// SystemMembers reads /etc/group, and by that doesn't know the groups of a
// directory service. As to hg, a user's primary group counts only if the file
// lists the user there.
func SystemMembers(group string) (users []string, ok bool, err error) {
	b, err := vfs.ReadFile(vfs.NewOS("/"), "etc/group", maxGroupBytes)
	if err != nil {
		return nil, false, err
	}
	users, ok = membersIn(string(b), group)
	return users, ok, nil
}

// membersIn reads lines "name:password:number:user,user" (group(5)). The first
// of a name counts.
func membersIn(text, group string) (users []string, ok bool) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(fields) == 4 && fields[0] == group {
			return strings.FieldsFunc(fields[3], func(c rune) bool { return c == ',' }), true
		}
	}
	return nil, false
}
