package accesslog

import (
	"net/url"
	"strings"

	"github.com/stint-limiter/stint/internal/syntax"
)

// reason is an error that says why a line is malformed. There are only a few general reasons,
// because users can see the details in the line itself.
type reason string

func (r reason) Error() string { return "accesslog: " + string(r) }

const (
	noRequest     = reason("no request line")
	brokenRequest = reason("the request line is not METHOD TARGET HTTP/VERSION")
	brokenMethod  = reason("the method is not valid")
	brokenTarget  = reason("the target of the request is not a valid URL")
)

// readRequest reads a request line such as "GET /a HTTP/1.1" as a Go server does. It rejects what a
// Go server rejects, such as HTTP/0.9 and TLS handshakes, because no limiter would see such
// requests.
func (r *Record) readRequest(line string) error {
	if line == "" || line == "-" {
		return noRequest
	}
	method, rest, _ := strings.Cut(line, " ")
	target, protocol, _ := strings.Cut(rest, " ")
	if len(protocol) < len("HTTP/1") || !strings.HasPrefix(protocol, "HTTP/") || strings.Contains(protocol, " ") {
		return brokenRequest
	}
	if !syntax.IsToken(method) {
		return brokenMethod
	}
	r.Method = method
	return r.readTarget(target)
}

// readTarget reads the target of a request. Most targets consist of a path that needs no decoding
// and perhaps a query. For such targets, readTarget does not use package net/url, which is slower
// and allocates.
func (r *Record) readTarget(target string) error {
	path, query, _ := strings.Cut(target, "?")
	if strings.HasPrefix(path, "/") && isLiteral(path) && !hasControl(query) {
		r.Path = path
		return nil
	}
	if r.Method == "CONNECT" && !strings.HasPrefix(target, "/") {
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

// isLiteral reports whether a path has only letters, digits and the punctuation $&+,-./:;=@_~.
// Package net/url leaves such a path unchanged.
func isLiteral(path string) bool {
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', '@' <= c && c <= 'Z', '+' <= c && c <= ';':
		case c == '_', c == '~', c == '=', c == '&', c == '$':
		default:
			return false
		}
	}
	return true
}

// hasControl reports whether s contains ASCII control characters, which are not allowed in a URL.
func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
