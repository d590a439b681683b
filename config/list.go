package config

import "strings"

// ParseList splits a value into words, at commas and white space (hg help
// config, Syntax). A word in double quotes keeps them inside it; a backslash
// before a quote takes its meaning away; a quote inside a word has none. A
// quote that is never closed stands for itself.
func ParseList(s string) []string {
	return parseWords(strings.TrimLeft(s, " ,\n"))
}

func parseWords(s string) []string {
	s = strings.TrimRight(s, " ,")
	if s == "" {
		return nil
	}
	l := &lister{rest: s, words: []string{""}}
	for !l.done {
		if quote := l.plain(); quote {
			l.quoted()
		}
	}
	return l.words
}

// A lister holds what is left to read, and the words so far. The last one is
// being written.
type lister struct {
	rest  string
	words []string
	done  bool
}

func (l *lister) last() *string { return &l.words[len(l.words)-1] }

// plain reads one character outside of quotes, and the separators before it. It
// reports whether that was an opening quote.
func (l *lister) plain() bool {
	trimmed := strings.TrimLeft(l.rest, space+",")
	separated := len(trimmed) < len(l.rest)
	l.rest = trimmed
	if l.rest == "" {
		l.done = true
		return false
	}
	if separated {
		l.words = append(l.words, "")
	}
	c, word := l.rest[0], l.last()
	l.rest = l.rest[1:]
	switch {
	case c == '"' && *word == "":
		return true
	case c == '"' && strings.HasSuffix(*word, `\`):
		*word = strings.TrimSuffix(*word, `\`) + `"`
	default:
		*word += string([]byte{c})
	}
	return false
}

// quoted reads the rest of a word that began with a quote, and what separates
// it from the next.
func (l *lister) quoted() {
	if rest, ok := strings.CutPrefix(l.rest, `"`); ok { // "" is an empty word
		l.words = append(l.words, "")
		l.rest = strings.TrimLeft(rest, space+",")
		return
	}
	closed := l.untilQuote()
	if !closed {
		l.reread()
		return
	}
	l.rest = strings.TrimLeft(l.rest, " ,")
	switch l.rest {
	case "":
	case `"`:
		*l.last() += `"`
		l.rest = ""
	default:
		l.words = append(l.words, "")
	}
}

func (l *lister) untilQuote() bool {
	var b strings.Builder
	for i := 0; i < len(l.rest); i++ {
		switch {
		case l.rest[i] == '"':
			*l.last() += b.String()
			l.rest = l.rest[i+1:]
			return true
		case l.rest[i] == '\\' && i+1 < len(l.rest) && l.rest[i+1] == '"':
			i++
			b.WriteByte('"')
		default:
			b.WriteByte(l.rest[i])
		}
	}
	*l.last() += b.String()
	return false
}

// reread takes the text behind a quote that wasn't closed for plain words, the
// first of which begins with the quote.
func (l *lister) reread() {
	words := parseWords(*l.last())
	l.done = true
	if len(words) == 0 {
		*l.last() = `"`
		return
	}
	words[0] = `"` + words[0]
	l.words = append(l.words[:len(l.words)-1], words...)
}
