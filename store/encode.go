package store

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
)

// An Encoder turns the names of a store's files into those on the disk, which
// any file system can hold (hg help internals.requirements: store, fncache,
// dotencode). It depends on the repository's requirements alone.
type Encoder uint8

const (
	// EncodePlain is what a store without fncache has: capitals and reserved
	// characters are escaped, nothing else. It can be decoded.
	EncodePlain Encoder = iota
	// EncodeHybrid, of a store with fncache, also masks the names that Windows
	// reserves, and hashes a name that would get too long.
	EncodeHybrid
	// EncodeDot, of a store with fncache and dotencode, also escapes a period
	// or space at the beginning of a component.
	EncodeDot
)

// What a hashed name is made of, in bytes.
const (
	maxEncodedLen   = 120           // longer names are hashed
	hashedDirLen    = 8             // of each directory
	maxHashedDirLen = 8*(8+1) - 4   // of all directories together
	hashedPrefix    = "dh/"         // takes the place of data/ or meta/
	prefixLen       = len("data/")  // and of meta/
	digestHexLen    = 2 * sha1.Size // of the name with its directories encoded
	hexDigits       = "0123456789abcdef"
)

// Encode returns the name on the disk, relative to the store, of a file called
// name there: "data/", the name in the working copy, ".i" or ".d". The name
// must have passed CheckPath.
func (e Encoder) Encode(name string) string {
	name = EncodeDir(name)
	if e == EncodePlain {
		return string(appendEscaped(make([]byte, 0, 2*len(name)), name))
	}
	if len(name) <= maxEncodedLen {
		escaped := appendEscaped(make([]byte, 0, 2*maxEncodedLen), name)
		enc := maskComponents(make([]byte, 0, len(escaped)+16), escaped, e == EncodeDot)
		if len(enc) <= maxEncodedLen {
			return string(enc)
		}
	}
	return hashedName(name, e == EncodeDot)
}

// EncodeDir makes room for a file beside a directory of the same name: a
// directory that ends like a revlog file gets ".hg" at its end. This is the
// form in which the fncache has names.
func EncodeDir(name string) string {
	if !strings.Contains(name, ".i/") && !strings.Contains(name, ".d/") && !strings.Contains(name, ".hg/") {
		return name
	}
	var b strings.Builder
	for {
		dir, rest, ok := strings.Cut(name, "/")
		b.WriteString(dir)
		if !ok {
			return b.String()
		}
		if strings.HasSuffix(dir, ".i") || strings.HasSuffix(dir, ".d") || strings.HasSuffix(dir, ".hg") {
			b.WriteString(".hg")
		}
		b.WriteByte('/')
		name = rest
	}
}

// DecodeDir takes back EncodeDir.
func DecodeDir(name string) string {
	if !strings.Contains(name, ".hg/") {
		return name
	}
	var b strings.Builder
	for {
		dir, rest, ok := strings.Cut(name, "/")
		if !ok {
			b.WriteString(dir)
			return b.String()
		}
		short := strings.TrimSuffix(dir, ".hg")
		if !strings.HasSuffix(short, ".i") && !strings.HasSuffix(short, ".d") && !strings.HasSuffix(short, ".hg") {
			short = dir
		}
		b.WriteString(short)
		b.WriteByte('/')
		name = rest
	}
}

// DecodePlain takes back Encode of an EncodePlain store. ok is false for what
// Encode never makes.
func DecodePlain(enc string) (name string, ok bool) {
	b := make([]byte, 0, len(enc))
	for i := 0; i < len(enc); i++ {
		switch c := enc[i]; {
		case c == '_':
			i++
			if i == len(enc) || enc[i] != '_' && (enc[i] < 'a' || enc[i] > 'z') {
				return "", false
			}
			if c = enc[i]; c != '_' {
				c -= 'a' - 'A'
			}
			b = append(b, c)
		case c == '~':
			raw, err := hex.DecodeString(enc[i+1 : min(i+3, len(enc))])
			if err != nil || len(raw) != 1 || !reserved(raw[0]) || enc[i+1:i+3] != hex.EncodeToString(raw) {
				return "", false
			}
			b = append(b, raw[0])
			i += 2
		case reserved(c) || isCapital(c):
			return "", false
		default:
			b = append(b, c)
		}
	}
	name = DecodeDir(string(b))
	return name, EncodeDir(name) == string(b)
}

// reserved tells which bytes some file system can't have in a name.
func reserved(c byte) bool { return isReserved[c] }

var isReserved = func() (is [256]bool) {
	for c := range is {
		is[c] = c < ' ' || c >= '~' || strings.IndexByte(`\:*?"<>|`, byte(c)) >= 0
	}
	return is
}()

func isCapital(c byte) bool { return 'A' <= c && c <= 'Z' }

// appendEscaped appends name in the form that can be decoded.
func appendEscaped(b []byte, name string) []byte {
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case isCapital(c):
			b = append(b, '_', c+'a'-'A')
		case c == '_':
			b = append(b, '_', '_')
		case reserved(c):
			b = appendHex(b, c)
		default:
			b = append(b, c)
		}
	}
	return b
}

// appendLowered appends name without capitals, which can't be decoded.
func appendLowered(b []byte, name string) []byte {
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case isCapital(c):
			b = append(b, c+'a'-'A')
		case reserved(c):
			b = appendHex(b, c)
		default:
			b = append(b, c)
		}
	}
	return b
}

func appendHex(b []byte, c byte) []byte {
	return append(b, '~', hexDigits[c>>4], hexDigits[c&15])
}

// maskComponents appends the components of path with what Windows would not
// have in a name masked.
func maskComponents(b, path []byte, dotencode bool) []byte {
	for len(path) > 0 {
		n := 0
		for n < len(path) && path[n] != '/' {
			n++
		}
		b = maskComponent(b, path[:n], dotencode)
		if n < len(path) {
			b = append(b, '/')
			n++
		}
		path = path[n:]
	}
	return b
}

func maskComponent(b, c []byte, dotencode bool) []byte {
	if len(c) == 0 {
		return b
	}
	start := len(b)
	switch {
	case dotencode && (c[0] == '.' || c[0] == ' '):
		b = append(appendHex(b, c[0]), c[1:]...)
	case isDevice(c):
		b = append(appendHex(append(b, c[:2]...), c[2]), c[3:]...)
	default:
		b = append(b, c...)
	}
	last := b[len(b)-1]
	if len(b) > start && (last == '.' || last == ' ') {
		b = appendHex(b[:len(b)-1], last)
	}
	return b
}

// isDevice tells whether Windows takes a name for a device: aux, con, prn,
// nul, com1 to com9, lpt1 to lpt9, with any ending.
func isDevice(c []byte) bool {
	n := 0
	for n < len(c) && c[n] != '.' {
		n++
	}
	switch {
	case n == 3:
		s := string(c[:3])
		return s == "aux" || s == "con" || s == "prn" || s == "nul"
	case n == 4 && '1' <= c[3] && c[3] <= '9':
		s := string(c[:3])
		return s == "com" || s == "lpt"
	}
	return false
}

// hashedName returns the name of a file whose escaped name is too long:
// beginnings of its directories, as much of its own name as there is room for,
// a digest of the whole, its ending. name has its directories encoded.
func hashedName(name string, dotencode bool) string {
	lowered := appendLowered(make([]byte, 0, 2*len(name)), name[prefixLen:])
	masked := string(maskComponents(make([]byte, 0, len(lowered)+16), lowered, dotencode))
	base := masked[strings.LastIndexByte(masked, '/')+1:]
	b := append(make([]byte, 0, 2*maxEncodedLen), hashedPrefix...)
	b = appendShortDirs(b, masked[:len(masked)-len(base)])
	ext := extension(base)
	if room := maxEncodedLen - len(b) - digestHexLen - len(ext); room > 0 {
		b = append(b, base[:min(room, len(base))]...)
	}
	digest := sha1.Sum([]byte(name))
	b = hex.AppendEncode(b, digest[:])
	return string(append(b, ext...))
}

// appendShortDirs appends the beginnings of directories, each of which ends
// with a slash in dirs, as long as there is room for the next one.
func appendShortDirs(b []byte, dirs string) []byte {
	used := 0
	for dir := range strings.SplitSeq(strings.TrimSuffix(dirs, "/"), "/") {
		if dir == "" {
			continue
		}
		dir = dir[:min(hashedDirLen, len(dir))]
		if c := dir[len(dir)-1]; c == '.' || c == ' ' {
			dir = dir[:len(dir)-1] + "_"
		}
		if used > 0 && used+1+len(dir) > maxHashedDirLen {
			break
		}
		if used > 0 {
			used++
		}
		used += len(dir)
		b = append(append(b, dir...), '/')
	}
	return b
}

// extension returns the ending of a file's name with its period; periods at
// the name's beginning don't count.
func extension(base string) string {
	i := strings.LastIndexByte(base, '.')
	if i < 0 || strings.Trim(base[:i], ".") == "" {
		return ""
	}
	return base[i:]
}
