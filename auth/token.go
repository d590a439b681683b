package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"vcsd/internal/livefile"
	"vcsd/internal/vfs"
	"vcsd/pattern"
)

const (
	// maxTokensBytes bounds a file of tokens.
	maxTokensBytes = 64 << 20

	// tokenPrefix begins every token, so that it is known for one wherever it
	// turns up.
	tokenPrefix = "vcsd_"

	tokenRandomBytes = 32
)

// A Scope is what a token is good for. It takes from what its user may do, and
// adds nothing. A nil Scope takes nothing.
type Scope struct {
	push  bool
	repos *pattern.Matcher // nil: all
}

// Allows reports whether the scope has the repository at a path, without
// slashes at its ends, and pushing to it if that is asked for.
func (s *Scope) Allows(repo string, push bool) bool {
	return s == nil || (s.push || !push) && (s.repos == nil || s.repos.Match(repo))
}

// A Grant is what a token is made for.
type Grant struct {
	User    string
	Push    bool      // pushing too, not reading alone
	Repos   []string  // patterns of paths of repositories, globs if they don't say otherwise; none: all
	Expires time.Time // when the token ends, in whole seconds; zero: never
}

// NewToken makes a token. line is what to add to a file of tokens, with its
// end; of it the token can't be found out.
func NewToken(g Grant) (token, line string, err error) {
	var random [tokenRandomBytes]byte
	rand.Read(random[:])
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	line = g.line(sha256.Sum256([]byte(token)))
	_, _, err = parseToken(strings.TrimSpace(line))
	return token, line, err
}

// line writes a grant as it stands in a file.
func (g *Grant) line(hash [sha256.Size]byte) string {
	fields := []string{hex.EncodeToString(hash[:]), "user=" + escape(g.User), "scope=read"}
	if g.Push {
		fields[2] = "scope=push"
	}
	if len(g.Repos) > 0 {
		repos := make([]string, len(g.Repos))
		for i, r := range g.Repos {
			repos[i] = escape(r)
		}
		fields = append(fields, "repos="+strings.Join(repos, ","))
	}
	if !g.Expires.IsZero() {
		fields = append(fields, "expires="+g.Expires.UTC().Format(time.RFC3339))
	}
	return strings.Join(fields, " ") + "\n"
}

// escape keeps white space, commas and percent signs apart from those that
// mean something in a file of tokens.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == ',' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// A token is a line of a file.
type token struct {
	user    string
	scope   *Scope
	expires time.Time
}

// Tokens knows users by tokens, which are random and long, so that a plain
// SHA-256 of each is enough to keep. A file of them has a line for each:
//
//	HASH user=NAME [scope=read|push] [repos=PATTERN,...] [expires=TIME]
//
// with the hash in hexadecimal and the time as in RFC 3339; without a scope it
// is good for reading alone. White space, commas and percent signs in a name or
// a pattern are escaped, as %20. Lines that are empty or begin with "#" count
// for nothing.
type Tokens struct {
	file *livefile.File[map[[sha256.Size]byte]token]
}

// OpenTokens reads a file of tokens, which must be there and sound.
func OpenTokens(fsys vfs.FS, name string) (*Tokens, error) {
	f, err := livefile.Open(fsys, name, maxTokensBytes, parseTokens)
	return &Tokens{f}, err
}

func parseTokens(b []byte) (map[[sha256.Size]byte]token, error) {
	tokens := make(map[[sha256.Size]byte]token)
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		hash, t, err := parseToken(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := tokens[hash]; twice {
			return nil, fmt.Errorf("line %d: the same token again", n)
		}
		tokens[hash] = t
	}
	return tokens, nil
}

func parseToken(line string) (hash [sha256.Size]byte, t token, err error) {
	words := strings.Fields(line)
	sum, err := hex.DecodeString(words[0])
	if err != nil || len(sum) != len(hash) {
		return hash, t, errors.New("no SHA-256 at the start")
	}
	t.scope = new(Scope)
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		if err := t.set(key, value); err != nil {
			return hash, t, fmt.Errorf("%s: %w", w, err)
		}
	}
	if t.user == "" {
		return hash, t, errors.New("no user")
	}
	return [sha256.Size]byte(sum), t, nil
}

func (t *token) set(key, value string) (err error) {
	switch key {
	case "user":
		t.user, err = url.PathUnescape(value)
	case "scope":
		if value != "read" && value != "push" {
			return errors.New("neither read nor push")
		}
		t.scope.push = value == "push"
	case "repos":
		t.scope.repos, err = parseRepos(value)
	case "expires":
		t.expires, err = time.Parse(time.RFC3339, value)
	default:
		return errors.New("unknown field")
	}
	return err
}

func parseRepos(value string) (*pattern.Matcher, error) {
	var repos []string
	for s := range strings.SplitSeq(value, ",") {
		p, err := url.PathUnescape(s)
		if err != nil {
			return nil, err
		}
		repos = append(repos, p)
	}
	return pattern.Compile(repos, "/")
}

// isToken tells a token from a password.
func isToken(password string) bool { return strings.HasPrefix(password, tokenPrefix) }

// check returns whose token it is. user is the name that was given with it;
// empty if the token came alone.
func (t *Tokens) check(user, secret string) (Identity, error) {
	tokens, err := t.file.Get()
	if err != nil {
		return Identity{}, fmt.Errorf("tokens can't be checked: %w", err)
	}
	// Who could learn from the time of this look-up would learn about hashes,
	// and know no token by that.
	found, ok := tokens[sha256.Sum256([]byte(secret))]
	switch {
	case !ok || user != "" && user != found.user:
		return Identity{}, wrong(user, reasonWrong)
	case !found.expires.IsZero() && !time.Now().Before(found.expires):
		return Identity{}, wrong(found.user, "the token has expired")
	}
	return Identity{User: found.user, Scope: found.scope}, nil
}
