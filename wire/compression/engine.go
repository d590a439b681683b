package compression

// An Engine is a way to compress a stream.
type Engine uint8

// The engines. The zero value leaves the stream as it is.
const (
	None Engine = iota
	Zlib
	Zstd
	Bzip2

	engines = iota // how many there are
)

// names holds what each engine is called where. The values are those of the
// formats: they never change.
var names = [engines]struct{ bundle, wire string }{
	None:  {"UN", "none"},
	Zlib:  {"GZ", "zlib"},
	Zstd:  {"ZS", "zstd"},
	Bzip2: {"BZ", "bzip2"},
}

// FromBundle returns the engine with that name in a bundle's header: the two
// bytes after "HG10", or the value of bundle2's stream parameter Compression.
func FromBundle(name string) (Engine, bool) {
	for e, n := range names {
		if n.bundle == name {
			return Engine(e), true
		}
	}
	return 0, false
}

// FromWire returns the engine with that name in the HTTP protocol.
func FromWire(name string) (Engine, bool) {
	for e, n := range names {
		if n.wire == name {
			return Engine(e), true
		}
	}
	return 0, false
}

// BundleName returns the engine's name in a bundle's header.
func (e Engine) BundleName() string { return names[e].bundle }

// WireName returns the engine's name in the HTTP protocol.
func (e Engine) WireName() string { return names[e].wire }

func (e Engine) String() string { return names[e].wire }
