package obsmarker

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"vcsd/hg"
)

// A marker of version 0, big-endian.
const (
	offSuccsV0   = 0 // 1 byte: number of successors
	offMetaLenV0 = 1 // 4 bytes: length of the metadata
	offFlagsV0   = 5 // 1 byte
	offPrecV0    = 6 // 20 bytes: predecessor
	fixedLenV0   = 26
	// Then: the successors, 20 bytes each, and the metadata: strings of
	// key:value with a zero byte between them. Date and parents are among
	// them, under the keys below.
)

var _ [fixedLenV0]byte = [offPrecV0 + hg.NodeLen]byte{}

// Keys of metadata that say what version 1 has fields for.
const (
	keyDate      = "date" // seconds and offset in seconds, a blank between
	keyNoParents = "p0"   // recorded, and none
	keyP1        = "p1"   // 40 hexadecimal digits
	keyP2        = "p2"
)

// isReserved reports whether e would be read as something else than metadata.
func isReserved(e Meta) bool {
	switch e.Key {
	case keyDate, keyNoParents, keyP1, keyP2:
		return true
	}
	return false
}

// parseV0 reads one marker from the start of data.
func parseV0(data []byte) (m Marker, size int, err error) {
	if len(data) < fixedLenV0 {
		return m, 0, tooShort("marker", fixedLenV0, len(data))
	}
	succs := int(data[offSuccsV0])
	metaLen := binary.BigEndian.Uint32(data[offMetaLenV0:])
	m.Flags = Flags(data[offFlagsV0])
	if m.Flags&UsingSHA256 != 0 {
		return m, 0, fmt.Errorf("version 0 has no long nodes")
	}
	m.Prec = hg.Node(data[offPrecV0:fixedLenV0])
	rest := data[fixedLenV0:]
	if len(rest) < succs*hg.NodeLen {
		return m, 0, tooShort("list of successors", succs*hg.NodeLen, len(rest))
	}
	m.Succs, _ = split[hg.Node](rest, succs, 0)
	rest = rest[succs*hg.NodeLen:]
	if int64(len(rest)) < int64(metaLen) {
		return m, 0, tooShort("metadata", int(metaLen), len(rest))
	}
	size = fixedLenV0 + succs*hg.NodeLen + int(metaLen)
	return m, size, m.metaV0(string(rest[:metaLen]))
}

// sizeV0 returns how long the marker at the start of data says it is, 0 if that
// is not there.
func sizeV0(data []byte) int64 {
	if len(data) < fixedLenV0 {
		return 0
	}
	return fixedLenV0 + int64(data[offSuccsV0])*hg.NodeLen + int64(binary.BigEndian.Uint32(data[offMetaLenV0:]))
}

// metaV0 reads the metadata, and from it date and parents. As in hg, a key
// that comes twice has its last value, a date that is none counts as 1970, and
// parents that are none as not recorded.
func (m *Marker) metaV0(blob string) error {
	all := map[string]string{}
	for item := range strings.SplitSeq(blob, "\x00") {
		if item == "" {
			continue
		}
		key, value, ok := strings.Cut(item, ":")
		if !ok {
			return fmt.Errorf("metadata %q lacks a colon", item)
		}
		all[key] = value
	}
	m.Date = dateV0(all[keyDate])
	delete(all, keyDate)
	m.parentsV0(all)
	for key, value := range all {
		m.Meta = append(m.Meta, Meta{key, value})
	}
	slices.SortFunc(m.Meta, func(a, b Meta) int { return strings.Compare(a.Key, b.Key) })
	return nil
}

func dateV0(s string) Date {
	when, zone, _ := strings.Cut(s, " ")
	seconds, err1 := strconv.ParseFloat(when, 64)
	offset, err2 := strconv.ParseInt(zone, 10, 32)
	if err1 != nil || err2 != nil || math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return Date{}
	}
	return Date{seconds, int(offset)}
}

// parentsV0 takes the parents out of all.
func (m *Marker) parentsV0(all map[string]string) {
	p1, has1 := all[keyP1]
	p2, has2 := all[keyP2]
	var digits []string
	switch _, none := all[keyNoParents]; {
	case has2:
		digits = []string{p1, p2}
		delete(all, keyP1)
		delete(all, keyP2)
	case has1:
		digits = []string{p1}
		delete(all, keyP1)
	case none:
		delete(all, keyNoParents)
		m.HasParents = true
		return
	default:
		return
	}
	for _, d := range digits {
		n, err := hg.ParseNode(d)
		if err != nil {
			m.Parents = nil
			return
		}
		m.Parents = append(m.Parents, n)
	}
	m.HasParents = true
}

// AppendV0 adds m in version 0, for peers that know no other. It fails for
// what that version can't express.
func AppendV0(b []byte, m *Marker) ([]byte, error) {
	if m.Long != nil || m.Flags > math.MaxUint8 || m.Flags&UsingSHA256 != 0 {
		return b, hg.Abortf("cannot handle sha256 with old obsstore format")
	}
	if len(m.Succs) > math.MaxUint8 {
		return b, fmt.Errorf("marker with %d successors", len(m.Succs))
	}
	meta, err := m.encodeMetaV0()
	if err != nil {
		return b, err
	}
	b = append(b, byte(len(m.Succs)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(meta)))
	b = append(b, byte(m.Flags))
	b = append(b, m.Prec[:]...)
	for _, n := range m.Succs {
		b = append(b, n[:]...)
	}
	return append(b, meta...), nil
}

// encodeMetaV0 returns the metadata with date and parents, sorted by key.
func (m *Marker) encodeMetaV0() (string, error) {
	seconds := strconv.FormatFloat(m.Date.Seconds, 'f', -1, 64)
	if !strings.Contains(seconds, ".") {
		seconds += ".0"
	}
	if i := slices.IndexFunc(m.Meta, isReserved); i >= 0 {
		return "", fmt.Errorf("metadata %q would be taken for a field in version 0", m.Meta[i].Key)
	}
	all := append(slices.Clone(m.Meta), Meta{keyDate, seconds + " " + strconv.Itoa(m.Date.Offset)})
	if m.HasParents && len(m.Parents) == 0 {
		all = append(all, Meta{keyNoParents, ""})
	}
	for i, p := range m.Parents {
		all = append(all, Meta{"p" + strconv.Itoa(i+1), p.String()})
	}
	slices.SortStableFunc(all, func(a, b Meta) int { return strings.Compare(a.Key, b.Key) })
	items := make([]string, len(all))
	for i, e := range all {
		if strings.ContainsAny(e.Key, ":\x00") || strings.Contains(e.Value, "\x00") {
			return "", fmt.Errorf("metadata %q: %q holds a separator", e.Key, e.Value)
		}
		items[i] = e.Key + ":" + e.Value
	}
	return strings.Join(items, "\x00"), nil
}
