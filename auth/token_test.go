package auth

import (
	"strings"
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	var file strings.Builder
	file.WriteString("# tokens\n\n")
	made := make(map[string]string)
	for name, g := range map[string]Grant{
		"plain":   {User: "ann"},
		"push":    {User: "odd name,100%", Push: true, Repos: []string{"team/**", "lib-*", "a,b c"}},
		"later":   {User: "ann", Push: true, Expires: time.Now().Add(time.Hour)},
		"expired": {User: "ann", Push: true, Expires: time.Now().Add(-time.Hour)},
	} {
		token, line, err := NewToken(g)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, token) || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: line %q for token %q", name, line, token)
		}
		made[name] = token
		file.WriteString(line)
	}
	tokens, path := openTokens(t, file.String())
	passwords, _ := openPasswords(t, passwordFile)
	a := &Credentials{Tokens: tokens, Passwords: passwords}
	for _, tt := range []struct {
		name, user, secret string
		want               string
	}{
		{"plain", "ann", made["plain"], "user ann"},
		{"odd", "odd name,100%", made["push"], "user odd name,100%"},
		{"another's", "bob", made["plain"], "Unauthorized"},
		{"not expired", "ann", made["later"], "user ann"},
		{"expired", "ann", made["expired"], "Unauthorized"},
		{"unknown", "ann", tokenPrefix + "x", "Unauthorized"},
		{"almost", "ann", made["plain"] + "x", "Unauthorized"},
		{"password", "apr", "s3cret", "user apr"},
		{"no password", "apr", "wrong", "Unauthorized"},
	} {
		if got := outcome(a.Authenticate(t.Context(), basic(tt.user, tt.secret), somewhere)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	for secret, want := range map[string]string{made["plain"]: "user ann", made["expired"]: "Unauthorized", "x": "Unauthorized", "": "Unauthorized"} {
		if got := outcome(a.Authenticate(t.Context(), header("Bearer "+secret), somewhere)); got != want {
			t.Errorf("Bearer %q: %s, want %s", secret, got, want)
		}
	}
	alone := &Credentials{Tokens: tokens}
	if got := outcome(alone.Authenticate(t.Context(), basic("apr", "s3cret"), somewhere)); got != "Unauthorized" {
		t.Errorf("a password where only tokens count: %s", got)
	}
	// A token that is taken out of the file ends at once.
	write(t, strings.TrimSuffix(path, "/tokens"), "tokens", "")
	if got := outcome(a.Authenticate(t.Context(), basic("ann", made["plain"]), somewhere)); got != "Unauthorized" {
		t.Errorf("a revoked token: %s", got)
	}
}

func TestScopes(t *testing.T) {
	scope := func(fields string) *Scope {
		_, tok, err := parseToken(strings.Repeat("0", 64) + " user=ann " + fields)
		if err != nil {
			t.Fatal(err)
		}
		return tok.scope
	}
	tests := []struct {
		scope      *Scope
		repo       string
		read, push bool
	}{
		{nil, "x", true, true},
		{scope(""), "x", true, false},
		{scope("scope=read"), "x/y", true, false},
		{scope("scope=push"), "", true, true},
		{scope("scope=push repos=**"), "", true, true},
		{scope("scope=push repos=x"), "x", true, true},
		{scope("scope=push repos=x"), "x/y", false, false},
		{scope("scope=push repos=x"), "xy", false, false},
		{scope("scope=push repos=x/*"), "x/y", true, true},
		{scope("scope=push repos=x/*"), "x/y/z", false, false},
		{scope("scope=push repos=x/**"), "x/y/z", true, true},
		{scope("repos=a,b%2Cc,d%20e"), "b,c", true, false},
		{scope("repos=a,b%2Cc,d%20e"), "d e", true, false},
		{scope("repos=a,b%2Cc,d%20e"), "d", false, false},
		{scope("repos=/x"), "x", true, false},
		{scope("repos=path:x"), "x/y", true, false},
		{scope("repos=re:x|y"), "yz", true, false},
	}
	for i, tt := range tests {
		if r, p := tt.scope.Allows(tt.repo, false), tt.scope.Allows(tt.repo, true); r != tt.read || p != tt.push {
			t.Errorf("%d: Allows(%q) = %v, %v; want %v, %v", i, tt.repo, r, p, tt.read, tt.push)
		}
	}
}

func TestTokenLinesThatAreRefused(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for _, line := range []string{
		"user=ann", hash, hash + " user=", "xyz user=ann", hash[2:] + " user=ann", hash + "00 user=ann",
		hash + " user=ann scope=admin", hash + " user=ann repos=a%zz", hash + " user=%zz", hash + " user=ann expires=tomorrow",
		hash + " user=ann colour=red", hash + " user=ann repos=re:(", hash + " user=ann repos=set:all()",
		hash + " user=ann\n" + hash + " user=bob",
	} {
		if _, err := parseTokens([]byte(line + "\n")); err == nil {
			t.Errorf("%q was taken", line)
		}
	}
	if _, _, err := NewToken(Grant{}); err == nil {
		t.Error("a token for nobody was made")
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 32) + " user=a%20b scope=push repos=a,b%2Cc expires=2030-01-01T00:00:00Z\n# x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tokens, err := parseTokens(b)
		if err != nil {
			return
		}
		for _, tok := range tokens {
			if tok.user == "" || tok.scope == nil {
				t.Errorf("%q: token %+v", b, tok)
			}
		}
	})
}

func FuzzParseTable(f *testing.F) {
	f.Add([]byte(passwordFile))
	f.Add([]byte("a:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nb:$2y$05$" + strings.Repeat("x", 53)))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := parseTable(b)
		if err == nil && len(tab.users) > 0 != (len(tab.decoys) > 0) {
			t.Errorf("%q: %d users, %d decoys", b, len(tab.users), len(tab.decoys))
		}
	})
}
