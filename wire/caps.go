package wire

import (
	"slices"
	"strconv"
	"strings"

	"vcsd/hg"
	"vcsd/wire/bundle2"
	"vcsd/wire/compression"
)

// Features are what a server offers for one repository. The capabilities that
// clients see follow from them.
type Features struct {
	// HeaderLen is the longest argument header that clients shall send, in
	// bytes (server.maxhttpheaderlen).
	HeaderLen int

	// PostArgs asks clients to send arguments in the body
	// (experimental.httppostargs).
	PostArgs bool

	// Engines compress answers, best first. None of them means zlib for all.
	Engines []compression.Engine

	// Levels are the levels to compress with; 0 or absent means the engine's
	// default.
	Levels map[compression.Engine]int

	// StreamOut offers stream clones of version 1, StreamRequirements are what
	// a client must be able to read for them in any version, StreamPreferred asks
	// clients to use them.
	StreamOut          bool
	StreamRequirements []string
	StreamPreferred    bool

	// Bundle2Stream offers stream clones inside bundle2.
	Bundle2Stream bool

	// Changegroups are the versions that a push may have.
	Changegroups []string

	// Obsmarkers offers the exchange of obsolescence markers.
	Obsmarkers bool

	// CheckRelated asks clients to name only the heads that their push
	// touches (server.concurrent-push-mode is check-related).
	CheckRelated bool

	// Bundle1Pull and Bundle1Push allow clients older than bundle2.
	Bundle1Pull, Bundle1Push bool

	// CloneBundles tells clients to ask where they may fetch most of a clone.
	CloneBundles bool

	// PullBundles answers clients that ask for the rest with bundles that were
	// put ready (server.pullbundle).
	PullBundles bool

	// NoFullPull refuses clones that are neither a stream nor start from a
	// clone bundle (server.disablefullbundle).
	NoFullPull bool
}

// DefaultEngines returns the engines that a server offers unless it is told
// otherwise, best first.
func DefaultEngines() []compression.Engine {
	return []compression.Engine{compression.Zstd, compression.Zlib}
}

// EnginesByName returns the engines that server.compressionengines names.
func EnginesByName(names []string) ([]compression.Engine, error) {
	if len(names) == 0 {
		return DefaultEngines(), nil
	}
	var engines []compression.Engine
	var unknown []string
	for _, name := range names {
		if e, ok := engineByName(name); !ok {
			unknown = append(unknown, name)
		} else if !slices.Contains(engines, e) {
			engines = append(engines, e)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return nil, hg.Abortf("invalid compression engine defined in server.compressionengines: %s",
			strings.Join(unknown, ", "))
	}
	return engines, nil
}

// engineByName knows the names of the configuration, where bzip2 has another
// one than on the wire.
func engineByName(name string) (compression.Engine, bool) {
	if name == "bz2" {
		return compression.Bzip2, true
	}
	e, ok := compression.FromWire(name)
	return e, ok && e != compression.Bzip2
}

// Capabilities returns the answer to the capabilities command. It is the same
// as that of hg serve for the same features, but for remote-changegroup, which
// is never offered: the server doesn't fetch from where a client says.
func (f *Features) Capabilities() string {
	caps := []string{
		"batch", "branchmap", "bundle2=" + bundle2.Quote(bundle2.EncodeCaps(f.Bundle2Caps())), "changegroupsubset",
		"getbundle", "httpheader=" + strconv.Itoa(f.HeaderLen), "httpmediatype=0.1rx,0.1tx,0.2tx",
		"known", "lookup", "pushkey", "unbundle=HG10GZ,HG10BZ,HG10UN", "unbundlehash",
	}
	if len(f.Engines) > 0 {
		caps = append(caps, "compression="+strings.Join(engineNames(f.Engines), ","))
	}
	if f.CloneBundles {
		caps = append(caps, "clonebundles")
	}
	if f.PostArgs {
		caps = append(caps, "httppostargs")
	}
	if f.StreamOut || f.Bundle2Stream {
		caps = append(caps, f.streamCaps()...)
	}
	slices.Sort(caps)
	return strings.Join(caps, " ")
}

func engineNames(engines []compression.Engine) []string {
	names := make([]string, len(engines))
	for i, e := range engines {
		names[i] = e.WireName()
	}
	return names
}

func (f *Features) streamCaps() []string {
	var caps []string
	if f.StreamPreferred {
		caps = append(caps, "stream-preferred")
	}
	reqs := slices.Sorted(slices.Values(f.StreamRequirements))
	if len(reqs) == 0 || len(reqs) == 1 && reqs[0] == "revlogv1" {
		return append(caps, "stream")
	}
	return append(caps, "streamreqs="+strings.Join(reqs, ","))
}

// Bundle2Caps returns the bundle2 capabilities that the server announces.
func (f *Features) Bundle2Caps() bundle2.Caps {
	caps := bundle2.Caps{
		"HG20":         nil,
		"bookmarks":    nil,
		"changegroup":  slices.Sorted(slices.Values(f.Changegroups)),
		"digests":      {"md5", "sha1", "sha512"},
		"error":        {"abort", "unsupportedcontent", "pushraced", "pushkey"},
		"hgtagsfnodes": nil,
		"listkeys":     nil,
		"phases":       {"heads"},
		"pushkey":      nil,
	}
	if f.CheckRelated {
		caps["checkheads"] = []string{"related"}
	}
	if f.Obsmarkers {
		caps["obsmarkers"] = []string{"V0", "V1"}
	}
	if f.Bundle2Stream {
		caps["stream"] = []string{"v2"}
	}
	return caps
}
