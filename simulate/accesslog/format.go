package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/stint-limiter/stint/internal/nearest"
)

// Format is how a log is written. One serves one goroutine at a time.
type Format interface {
	// Parse reads a line, which has no line feed at its end, and keeps nothing of it. If it fails, the line is
	// malformed, the error says why, and there is nothing of use in the record.
	Parse(line []byte, r *Record) error
	// String is the name that [NewFormat] knows.
	String() string
}

// Formats returns the names of all formats, the ones that say more before those that say less. Detect tries them in
// this order.
func Formats() []string { return []string{"combined", "common", "caddy", "envoy", "json"} }

// NewFormat returns a format by its name:
//
//	combined  Apache's and nginx's, with or without a host before the client and what servers add at the end
//	common    the same without referrer and user agent
//	caddy     JSON lines as Caddy writes them
//	envoy     JSON lines with the names that Istio and Envoy Gateway give to their fields
//	json      JSON lines with names that are usual for nginx and others
//
// For those of JSON, a mapping says where to find what the format does not know of, and instead of what it does. An
// empty name with a mapping stands for json.
func NewFormat(name string, m Mapping) (Format, error) {
	switch name {
	case "combined", "common":
		if len(m.places) > 0 {
			return nil, fmt.Errorf("accesslog: a mapping is for lines of JSON; the %s format has none", name)
		}
		return lineFormat{combined: name == "combined"}, nil
	case "caddy":
		return newJSONFormat(name, m.over(caddyPlaces())), nil
	case "envoy":
		return newJSONFormat(name, m.over(envoyPlaces())), nil
	case "", "json":
		return newJSONFormat("json", m.over(usualPlaces())), nil
	}
	return nil, fmt.Errorf("accesslog: there is no format %q%s; want %s", name, nearest.Hint(name, Formats()), strings.Join(Formats(), ", "))
}

// Detect returns the format that most of the lines are in, which are the first of a log.
func Detect(sample [][]byte) (Format, error) {
	format, err := detect(sample)
	if err != nil {
		return nil, fmt.Errorf("accesslog: %w", err)
	}
	return format, nil
}

func detect(sample [][]byte) (Format, error) {
	if len(sample) == 0 {
		return nil, errors.New("no lines to tell a format by")
	}
	var best Format
	most := 0
	for _, name := range Formats() {
		format, err := NewFormat(name, Mapping{})
		if err != nil {
			return nil, err
		}
		if n := countParsed(format, sample); n > most {
			best, most = format, n
		}
	}
	if best == nil {
		return nil, unknownFormat(sample[0])
	}
	return best, nil
}

func countParsed(format Format, sample [][]byte) int {
	var r Record
	n := 0
	for _, line := range sample {
		if format.Parse(line, &r) == nil {
			n++
		}
	}
	return n
}

// unknownFormat says what could be done about a log whose first line is in no known format.
func unknownFormat(line []byte) error {
	var r Record
	if bytes.HasPrefix(line, []byte("{")) {
		err := newJSONFormat("json", usualPlaces()).Parse(line, &r)
		return fmt.Errorf("lines of JSON whose fields are not where they usually are (%s): say where with a mapping; the first line is %q",
			why(err), shorten(line))
	}
	err := lineFormat{}.Parse(line, &r)
	return fmt.Errorf("no format that is known (if it is the common one: %s); want %s; the first line is %q",
		why(err), strings.Join(Formats(), ", "), shorten(line))
}

// shorten returns as much of a line as is worth showing.
func shorten(line []byte) string {
	const most = 160
	if len(line) > most {
		return strings.ToValidUTF8(string(line[:most]), "") + "…"
	}
	return string(line)
}
