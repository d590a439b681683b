package bundle2

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// compressionParam is the only stream parameter that has a meaning. Its
// values are those of compression.FromBundle.
const compressionParam = "Compression"

// A StreamParam is a parameter of a whole stream. It is mandatory if its name
// begins with an upper-case letter.
type StreamParam struct{ Name, Value string }

func (p StreamParam) mandatory() bool { return isUpper(p.Name[0]) }

// parseStreamParams decodes the stream parameters, without their length.
func parseStreamParams(blob string) ([]StreamParam, error) {
	if blob == "" {
		return nil, nil
	}
	var ps []StreamParam
	for item := range strings.SplitSeq(blob, " ") {
		name, value, _ := strings.Cut(item, "=")
		p := StreamParam{Unquote(name), Unquote(value)}
		if err := checkName(p.Name); err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("empty parameter name")
	}
	if !isAlpha(name[0]) {
		return fmt.Errorf("non letter first character: %s", name)
	}
	return nil
}

// appendStreamParams adds the stream parameters, their length before them.
func appendStreamParams(b []byte, ps []StreamParam) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	for i, p := range ps {
		if err := checkName(p.Name); err != nil {
			return b, err
		}
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, Quote(p.Name)...)
		if p.Value != "" {
			b = append(b, '=')
			b = append(b, Quote(p.Value)...)
		}
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-sizeLen))
	return b, nil
}
