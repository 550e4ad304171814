package accesslog

import (
	"net/url"
	"strings"

	"github.com/stint-limiter/stint/internal/words"
)

// reason says why a line is malformed. Reasons are few: what is wrong with one line stands beside its text.
type reason string

func (r reason) Error() string { return "accesslog: " + string(r) }

const (
	noRequest     = reason("no request line")
	brokenRequest = reason("the request line is not METHOD TARGET HTTP/VERSION")
	brokenMethod  = reason("the method is none")
	brokenTarget  = reason("the target of the request is no URL")
)

// readRequest reads a request line such as "GET /a HTTP/1.1" as a Go server does. What that refuses, such as
// HTTP/0.9 and the bytes of a TLS handshake, never comes before a limiter.
func (r *Record) readRequest(line string) error {
	if line == "" || line == "-" {
		return noRequest
	}
	method, rest := cutWord(line)
	target, protocol := cutWord(rest)
	if len(protocol) < len("HTTP/1") || protocol[:len("HTTP/")] != "HTTP/" || strings.IndexByte(protocol, ' ') >= 0 {
		return brokenRequest
	}
	if !words.IsToken(method) {
		return brokenMethod
	}
	r.Method = method
	return r.readTarget(target)
}

// readTarget reads what was asked for, most often a path and a query.
func (r *Record) readTarget(target string) error {
	if target == "" || target[0] != '/' {
		return r.readURL(target)
	}
	path := target
	if query := strings.IndexByte(target, '?'); query >= 0 {
		path = target[:query]
	}
	for i := range len(target) {
		if c := target[i]; c < ' ' || c == 0x7f {
			return brokenTarget
		}
	}
	return r.readPath(path)
}

// readPath sets Path and RawPath. One that consists of what no URL has to encode is the most usual by far.
func (r *Record) readPath(path string) error {
	i := 0
	for i < len(path) && staysLiteral(path[i]) {
		i++
	}
	r.Path = path
	if i == len(path) {
		return nil
	}
	start := len(r.memory)
	r.memory = append(r.memory, path[:i]...)
	usual := true // encoding Path again gives what came
	for ; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			if i+2 >= len(path) {
				return brokenTarget
			}
			high, low := hexDigit(path[i+1]), hexDigit(path[i+2])
			if high > 15 || low > 15 {
				return brokenTarget
			}
			c = high<<4 | low
			usual = usual && !staysLiteral(c) && path[i+1] < 'a' && path[i+2] < 'a'
			i += 2
		} else if !staysLiteral(c) {
			usual = false
		}
		r.memory = append(r.memory, c)
	}
	r.Path = r.since(start)
	if !usual {
		r.RawPath = path
	}
	return nil
}

// staysLiteral reports whether package net/url writes a byte of a path as it is.
func staysLiteral(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	switch c {
	case '/', '-', '_', '.', '~', '$', '&', '+', ',', ':', ';', '=', '@':
		return true
	}
	return false
}

// hexDigit returns the value of a digit, or one above 15.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

// readURL reads the seldom targets: a whole URL, as proxies are sent, the "*" of OPTIONS, and the authority of CONNECT.
func (r *Record) readURL(target string) error {
	if r.Method == "CONNECT" {
		target = "http://" + target
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return brokenTarget
	}
	r.Path, r.RawPath = u.Path, u.RawPath
	if u.Host != "" {
		r.Host = u.Host
	}
	return nil
}
