package auth

import (
	"strconv"
	"testing"
)

// Passwords that are wrong cost the same whether or not there is such a user.
func BenchmarkWrongPassword(b *testing.B) {
	const mixed = passwordFile + "bcrypt:$2y$08$XzZC1Ne0TzD9VIjwLhPyoOQPGYq5bCfXcDYbEyn4XGDHpYz8tDvxu\n"
	t, err := parseTable([]byte(mixed))
	if err != nil {
		b.Fatal(err)
	}
	for _, user := range []string{"apr", "sha", "bcrypt", "nobody"} {
		b.Run("user="+user, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if t.matches(user, strconv.Itoa(i)) {
					b.Fatal("right")
				}
			}
		})
	}
}
