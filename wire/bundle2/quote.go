package bundle2

import (
	"encoding/hex"
	"strings"
)

// Quote replaces all bytes but letters, digits and "_.-~/" with their %XX
// form, as hg does in stream parameters and capabilities.
func Quote(s string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if isAlnum(c) || strings.IndexByte("_.-~/", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

// Unquote replaces %XX by the byte it stands for. What is no such form stays
// as it is.
func Unquote(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		var c [1]byte
		if s[i] == '%' && i+2 < len(s) {
			if _, err := hex.Decode(c[:], []byte(s[i+1:i+3])); err == nil {
				b = append(b, c[0])
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}
