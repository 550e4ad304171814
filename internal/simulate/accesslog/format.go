package accesslog

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/messages"
)

// Format reads the lines of a log. It must not be used concurrently.
type Format interface {
	// Parse reads a line, which has no line feed, into r. It does not retain the line. If the line
	// is malformed, the error says why, and the content of r is undefined.
	Parse(line []byte, r *Record) error
}

var formats = []string{"combined", "common", "envoy", "traefik", "caddy", "json"}

// detected lists the formats that a detector tries, in order.
var detected = []string{"combined", "envoy", "traefik", "caddy", "json"}

// NewFormat returns the format with the given name:
//
//	combined  Apache, nginx and others; a host before the client and text at the end are allowed
//	common    the same as combined, which needs neither a referrer nor a user agent
//	envoy     Envoy's default format, Istio's format, and the JSON of Istio and Envoy Gateway
//	traefik   Traefik's common format and its JSON
//	caddy     the JSON of Caddy
//	json      JSON with common keys of nginx and others
//
// For JSON, the paths of a mapping are added to the paths of the format. If both have a path to the
// same part, the mapping's path replaces the format's. An empty name stands for json.
func NewFormat(name string, m Mapping) (Format, error) {
	name = cmp.Or(name, "json")
	if keys, ok := jsonMappings[name]; ok {
		own, err := ParseMapping(keys)
		if err != nil {
			return nil, err
		}
		f := newJSONFormat(m.over(own.paths))
		switch name {
		case "envoy":
			f.text = envoyText{}
		case "traefik":
			f.text = lineFormat{}
		}
		return f, nil
	}
	switch {
	case !slices.Contains(formats, name):
		return nil, fmt.Errorf("accesslog: unknown format %q%s; want %s",
			name, messages.Hint(name, formats), strings.Join(formats, ", "))
	case len(m.paths) > 0:
		return nil, fmt.Errorf("accesslog: a mapping applies only to JSON lines; the %s format has none", name)
	}
	return lineFormat{}, nil
}

// detector reads each line in the format of the last line that could be read or, if that fails, in
// another format. This is necessary because a log may begin with a banner, and because its format
// changes when the server gets a different configuration.
type detector struct {
	formats []Format
	last    int    // index of the format of the last line that could be read
	found   bool   // whether any line could be read
	first   []byte // the first unreadable line, if no line before it could be read
}

func newDetector() (*detector, error) {
	d := &detector{}
	for _, name := range detected {
		format, err := NewFormat(name, Mapping{})
		if err != nil {
			return nil, err
		}
		d.formats = append(d.formats, format)
	}
	return d, nil
}

// Parse implements [Format].
func (d *detector) Parse(line []byte, r *Record) error {
	err := d.formats[d.last].Parse(line, r)
	if err == nil {
		d.found = true
		return nil
	}
	others := d.formats
	if json := len(others) - 1; d.found && d.last > 0 {
		// Do not try generic JSON: a JSON line that a server writes in addition to its requests is
		// not a request, even if it looks like one.
		others = others[:json]
	}
	for i, format := range others {
		if i != d.last && format.Parse(line, r) == nil {
			d.last, d.found, d.first = i, true, nil
			return nil
		}
	}
	if !d.found && d.first == nil {
		d.first = bytes.Clone(line)
	}
	return err
}

// unknown returns an error with advice if there were lines but none could be read, and nil
// otherwise.
func (d *detector) unknown() error {
	if d.found || d.first == nil {
		return nil
	}
	var r Record
	if bytes.HasPrefix(d.first, []byte("{")) {
		err := d.formats[len(d.formats)-1].Parse(d.first, &r)
		return fmt.Errorf("JSON with unknown keys (%s); want --map with the keys of the fields, "+
			"such as --map time=ts,client=ip,path=url; the first line is: %s", reasonText(err), excerpt(d.first))
	}
	err := d.formats[0].Parse(d.first, &r)
	return fmt.Errorf("unknown format; if this is an access log, specify its format with --format (%s); "+
		"not %s: %s; the first line is: %s", strings.Join(formats, ", "), formats[0], reasonText(err), excerpt(d.first))
}

func reasonText(err error) string { return strings.TrimPrefix(err.Error(), "accesslog: ") }

// excerpt returns the beginning of the longest part of a line in which all characters are
// printable. The text is unchanged, so that users can find it in the log.
func excerpt(line []byte) string {
	const most = 160
	longest := ""
	for part := range strings.FieldsFuncSeq(string(line), notPrinted) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	if len(longest) > most {
		longest = strings.ToValidUTF8(longest[:most], "")
	}
	return strings.TrimSpace(longest)
}

// notPrinted reports whether c is not printable, or stands for an invalid byte.
func notPrinted(c rune) bool { return !strconv.IsPrint(c) || c == utf8.RuneError }
