package accesslog

import (
	"net/netip"
	"unsafe"
)

// Record is one request in a log. Its strings point into the record's own memory, so they are valid
// only until the next request is read into the record. Reuse a record to read lines without
// allocations.
type Record struct {
	// At is the time in Unix nanoseconds.
	At int64
	// Client is the address of the client according to the logging server. It is the zero Addr if
	// the log does not have the address.
	Client netip.Addr
	// ClientName is the host name that the log has instead of the client's address, or "". If it is
	// set, Client is a stand-in: no client has this address, and the same name always gives the
	// same address.
	ClientName string
	// User is the user according to the logging server, or "". The server may not have
	// authenticated the user.
	User string
	// Method is "" if the log does not have it. Apache and nginx lines always have it.
	Method string
	// Host is the host of the request, with the port if the log has it; "" if it is unknown.
	Host string
	// Path and RawPath are the fields of the [net/url.URL] that a Go server would have seen: the
	// decoded path, and the original path if encoding Path gives a different one. For "/a%20b" they
	// are "/a b" and "", and for "/a%2fb" they are "/a/b" and "/a%2fb".
	Path, RawPath string
	// Status and Bytes describe the response; 0 if the log does not have them.
	Status int
	Bytes  int64
	// Headers are the logged header fields of the request. Names are canonical and may repeat.
	Headers []Field
	// Claims are the claims that a mapping defines.
	Claims []Field
	// Tokens describes the tokens of a request to a language model.
	Tokens Tokens
	// File and Line locate the record in the logs.
	File string
	Line int64

	memory []byte
}

// Tokens holds what a line records about the tokens of a request to a language model.
type Tokens struct {
	// Counted is set if the line has a count of input or output tokens. Input counts the tokens of
	// the prompt, and Output the tokens of the answer. Cached counts the tokens in Input that came
	// from a cache. Counts that the line does not have are 0.
	Counted               bool
	Input, Output, Cached int64
	// Bounded is set if the format of the log has a field for the maximum number of tokens that a
	// request allows for its answer. MaxOutput is that maximum; 0 if the request sets none.
	Bounded   bool
	MaxOutput int64
	// Model is the name of the model; "" if the line does not have it.
	Model string
}

// Field is a header field or a claim.
type Field struct{ Name, Value string }

// UserClaim is the name of the claim that holds the user in the log.
const UserClaim = "user"

// Claim returns the value of a claim, or "" if the record does not have it. For [UserClaim], a
// claim from the mapping takes precedence over the user in the log.
func (r *Record) Claim(name string) string {
	for i := range r.Claims {
		if f := &r.Claims[i]; f.Name == name {
			return f.Value
		}
	}
	if name == UserClaim {
		return r.User
	}
	return ""
}

// reset empties the record and keeps its memory.
func (r *Record) reset() {
	*r = Record{Headers: r.Headers[:0], Claims: r.Claims[:0], memory: r.memory[:0]}
}

// keep copies text to the record's memory and returns the copy as a string. The strings of earlier
// calls stay valid when the memory grows.
func (r *Record) keep(text []byte) string {
	start := len(r.memory)
	r.memory = append(r.memory, text...)
	return r.since(start)
}

// since returns the part of the memory that begins at index start, as a string.
func (r *Record) since(start int) string {
	return unsafe.String(unsafe.SliceData(r.memory[start:]), len(r.memory)-start)
}

// redacted is the value that Caddy writes for secret headers.
const redacted = "REDACTED"

// addHeader adds a header field unless its value is unknown.
func (r *Record) addHeader(name, value string) {
	if value != "" && value != "-" && value != redacted {
		r.Headers = append(r.Headers, Field{name, value})
	}
}
