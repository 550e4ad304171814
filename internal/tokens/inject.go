package tokens

import (
	"bytes"
	"slices"
)

const (
	includeUsage  = `"include_usage":true`
	streamOptions = `"stream_options":{` + includeUsage + `}`
	whiteSpace    = " \t\r\n"
)

// Inject returns the body of a request with an option set, and whether the body has changed. The
// option makes a stream of OpenAI's chat completions report its usage in the last event. Inject
// changes only stream_options, and only in requests with "stream": true. The body must be complete.
func (r *Rules) Inject(body []byte) ([]byte, bool) {
	if !r.config.Inject {
		return body, false
	}
	// edit replaces size bytes of the body with a text, starting at an offset.
	type edit struct {
		at   int64
		size int
		with string
	}
	var document, options, include *edit
	stream, known, empty := false, false, false
	scanner := NewScanner(r.request, func(leaf int, value []byte, at int64) {
		switch r.kinds[leaf] {
		case isDocument:
			if value[0] == '{' && len(bytes.TrimLeft(body[:at], whiteSpace)) == 0 {
				document = &edit{at + 1, 0, streamOptions + ","}
			}
		case isStream:
			stream = string(value) == "true"
		case isOptions:
			switch value[0] {
			case '{':
				empty = bytes.HasPrefix(bytes.TrimLeft(body[at+1:], whiteSpace), []byte("}"))
				options = &edit{at + 1, 0, includeUsage + ","}
			case 'n':
				options = &edit{at, len(value), `{` + includeUsage + `}`}
			default:
				known = true // leave the body unchanged: the API rejects such a value
			}
		case isInclude:
			include = &edit{at, len(value), "true"}
			known = known || string(value) == "true" || value[0] == '{' || value[0] == '[' || value[0] == '"'
		case isResponses:
			known = true // the Responses API has no such option, and always reports usage
		}
	})
	_, _ = scanner.Write(body) // never fails
	change := document
	switch {
	case document == nil || !stream || known:
		return body, false
	case include != nil:
		change = include
	case options != nil:
		if change = options; empty {
			change.with = includeUsage
		}
	}
	return slices.Concat(body[:change.at], []byte(change.with), body[change.at+int64(change.size):]), true
}

// Inject calls [Rules.Inject].
func (m *Meter) Inject(body []byte) ([]byte, bool) { return m.rules.Inject(body) }
