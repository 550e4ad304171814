package accesslog

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/stint-limiter/stint/internal/nearest"
)

// Format reads the lines of a log. It must not be used concurrently.
type Format interface {
	// Parse reads a line without its line feed. It does not retain the line. An error says why the
	// line is malformed, and then the content of the record is undefined.
	Parse(line []byte, r *Record) error
	// String returns the name of the format: see [NewFormat].
	String() string
}

// formats are the names of all formats in the order of detection: those with more content first.
var formats = []string{"combined", "common", "caddy", "envoy", "json"}

// NewFormat returns a format by its name:
//
//	combined  Apache and nginx, also with a host before the client and more at the end
//	common    the same without referrer and user agent
//	caddy     the JSON of Caddy
//	envoy     JSON with the keys that Istio and Envoy Gateway use by default
//	json      JSON with common keys of nginx and others
//
// For JSON, a mapping adds to the keys of the format and replaces some of them. An empty name
// stands for json.
func NewFormat(name string, m Mapping) (Format, error) {
	name = cmp.Or(name, "json")
	if keys, ok := jsonMappings[name]; ok {
		own, err := ParseMapping(keys)
		if err != nil {
			return nil, err
		}
		return newJSONFormat(name, m.over(own.paths)), nil
	}
	switch {
	case name != "combined" && name != "common":
		return nil, fmt.Errorf("accesslog: there is no format %q%s; want %s",
			name, nearest.Hint(name, formats), strings.Join(formats, ", "))
	case len(m.paths) > 0:
		return nil, fmt.Errorf("accesslog: a mapping is for lines of JSON; the %s format has none", name)
	}
	return lineFormat{combined: name == "combined"}, nil
}

// detect returns the format that can read the most of the first lines of a log.
func detect(sample [][]byte) (Format, error) {
	var best Format
	var r Record
	most := 0
	for _, name := range formats {
		format, err := NewFormat(name, Mapping{})
		if err != nil {
			return nil, err
		}
		n := 0
		for _, line := range sample {
			if format.Parse(line, &r) == nil {
				n++
			}
		}
		if n > most {
			best, most = format, n
		}
	}
	if best == nil {
		return nil, unknownFormat(sample[0])
	}
	return best, nil
}

// unknownFormat returns an error that says what to do about a log whose first line is in no known
// format.
func unknownFormat(line []byte) error {
	var r Record
	if bytes.HasPrefix(line, []byte("{")) {
		format, err := NewFormat("json", Mapping{})
		if err == nil {
			err = format.Parse(line, &r)
		}
		return fmt.Errorf("JSON with unknown keys (%s); want a mapping that says where the fields are; "+
			"the first line is %q", reasonText(err), shorten(line))
	}
	err := lineFormat{}.Parse(line, &r)
	return fmt.Errorf("unknown format (not common: %s); want %s; the first line is %q",
		reasonText(err), strings.Join(formats, ", "), shorten(line))
}

// reasonText returns why a line is malformed, without the name of the package.
func reasonText(err error) string { return strings.TrimPrefix(err.Error(), "accesslog: ") }

// shorten returns the beginning of a line.
func shorten(line []byte) string {
	const max = 160
	if len(line) > max {
		return strings.ToValidUTF8(string(line[:max]), "") + "…"
	}
	return string(line)
}
