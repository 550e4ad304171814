package accesslog

import (
	"net/netip"
	"unsafe"
)

// Record is one request as a log has it. Its strings are views of memory that belongs to the record: they hold
// until the record is read into again, and whoever keeps one for longer clones it. Reuse a record, and lines are
// read without allocating.
type Record struct {
	// At is when, in Unix nanoseconds.
	At int64
	// Client is who asked: the peer, or who the logging server took for the client. It is the zero Addr if the log
	// says none.
	Client netip.Addr
	// User is who the logging server had authenticated, "" if nobody.
	User string
	// Method is "" if the log does not say, which no line of Apache's and nginx's formats leaves out.
	Method string
	// Host is what the request was for, with its port if the log has one; "" if it does not say.
	Host string
	// Path and RawPath are as those of a [net/url.URL] that a Go server would have seen: decoded, and as it came
	// where encoding Path again would give something else. Example: "/a b" and "" for "/a%20b", "/a/b" and
	// "/a%2fb" for "/a%2fb".
	Path, RawPath string
	// Status and Bytes are of the answer; zero if the log does not say.
	Status int
	Bytes  int64
	// Headers are the request's, as far as they were logged. Names are canonical, and may repeat.
	Headers []Field
	// Claims are what a mapping takes for them.
	Claims []Field

	memory []byte
}

// Field is a header field or a claim.
type Field struct{ Name, Value string }

// reset empties the record, and keeps its memory.
func (r *Record) reset() {
	*r = Record{Headers: r.Headers[:0], Claims: r.Claims[:0], memory: r.memory[:0]}
}

// keep copies text into the record's memory and returns the view of it. Views that were taken before stay good if
// the memory has to grow.
func (r *Record) keep(text []byte) string {
	start := len(r.memory)
	r.memory = append(r.memory, text...)
	return r.since(start)
}

// since returns the view of all that was appended to the memory from start on.
func (r *Record) since(start int) string {
	return unsafe.String(unsafe.SliceData(r.memory[start:]), len(r.memory)-start)
}

// redacted is what Caddy writes for a header that it keeps to itself: as good as no header, and no one's name.
const redacted = "REDACTED"

// addHeader adds a header, if the log says what it was.
func (r *Record) addHeader(name, value string) {
	if value != "" && value != "-" && value != redacted {
		r.Headers = append(r.Headers, Field{name, value})
	}
}
