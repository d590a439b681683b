package auth

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tg123/go-htpasswd"
)

// maxHtpasswdBytes bounds a file of passwords.
const maxHtpasswdBytes = 64 << 20

// passwordSystems are the hashes that a file may hold. Plain text is none.
var passwordSystems = []htpasswd.PasswdParser{
	htpasswd.AcceptBcrypt, htpasswd.AcceptMd5, htpasswd.AcceptCryptSha, htpasswd.AcceptSsha, htpasswd.AcceptSha,
}

// bcryptLen is how long a hash of bcrypt is, in bytes.
const bcryptLen = 60

// A hashed is a hashed password. Those of one kind take equally long to
// compare.
type hashed struct {
	htpasswd.EncodedPasswd
	kind string
}

// A table is the content of a file of passwords. It is not changed.
type table struct {
	users map[string]hashed
	// decoys has one of each kind that the file has.
	decoys []hashed
}

// parseTable reads lines "user:hash", as Apache's htpasswd writes them. Lines
// that are empty or begin with "#" count for nothing. Of a user's lines the
// first counts, as in Apache.
func parseTable(b []byte) (*table, error) {
	t := &table{users: make(map[string]hashed)}
	kinds := make(map[string]bool)
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		user, h, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := t.users[user]; twice {
			continue
		}
		t.users[user] = h
		if !kinds[h.kind] {
			kinds[h.kind] = true
			t.decoys = append(t.decoys, h)
		}
	}
	return t, nil
}

func parseLine(line string) (user string, h hashed, err error) {
	user, encoded, ok := strings.Cut(line, ":")
	if !ok || user == "" {
		return "", h, errors.New("not a user with a hashed password")
	}
	if strings.HasPrefix(encoded, "$2") && len(encoded) != bcryptLen {
		// It would be found wrong without any work, and sooner than others.
		return "", h, errors.New("a bcrypt hash that is cut off")
	}
	for _, parse := range passwordSystems {
		if p, err := parse(encoded); err == nil && p != nil {
			return user, hashed{p, kindOf(encoded)}, nil
		}
	}
	return "", h, errors.New("not a user with a hashed password")
}

// kindOf returns what of a hash tells how long it takes: the system, and its
// cost if it has one.
func kindOf(encoded string) string {
	if end := strings.IndexByte(encoded, '}'); encoded[0] == '{' && end > 0 {
		return encoded[:end]
	}
	fields := strings.Split(encoded, "$")
	switch {
	case len(fields) < 3:
		return ""
	case strings.HasPrefix(fields[1], "2"): // bcrypt and its revisions
		return "2$" + fields[2]
	case strings.HasPrefix(fields[2], "rounds="):
		return fields[1] + "$" + fields[2]
	}
	return fields[1]
}

// matches reports whether it is the user's password. It takes as long for a
// user who isn't there as for any other: one hash of each kind is compared.
func (t *table) matches(user, password string) bool {
	own, known := t.users[user]
	right := false
	for _, h := range t.decoys {
		if known && h.kind == own.kind {
			right = own.MatchesPassword(password)
		} else {
			h.MatchesPassword(password)
		}
	}
	return right
}
