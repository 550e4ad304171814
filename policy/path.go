package policy

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/pathpattern"
)

// isPlain reports whether a path has one reading for everybody, and no letters in upper case: this
// decides most paths at once.
func isPlain(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	for i := range len(p) {
		c := p[i]
		if 'a' <= c && c <= 'z' {
			continue // most
		}
		switch {
		case c == '/' && i+1 < len(p):
			if p[i+1] == '/' || p[i+1] == '.' {
				return false
			}
		case c == '/' && i > 0, c == '\\', c == '#', c == '?', c == ';', c == '\n', 'A' <= c && c <= 'Z', c >= 0x80:
			return false
		}
	}
	return true
}

// readPath returns the paths that routers make of a path, decoded and as it was sent ("" if that is
// the same). They differ in what they decode, in how they remove dot segments, and in what a
// backslash, a number sign, a question mark that was encoded, a semicolon, a newline at the end and
// two slashes at the beginning mean. The first one has no empty and no dot segments, as that of
// net/http's mux. Most paths have only one.
func readPath(decoded, raw string) (first string, others []string) {
	first = pathpattern.Clean(decoded)
	if raw == "" && asSent(decoded) == first && !strings.ContainsAny(decoded, "\\#?;\n") {
		return first, nil
	}
	late := []func(string) string{withoutNewline, withoutAuthority}
	if len(decoded) <= maxReadPath {
		late = []func(string) string{ // parameters twice: Tomcat does it first
			withoutNewline, withoutFragment, withoutParameters, withoutBackslashes, withoutAuthority, withoutParameters,
		}
	}
	sent := decoded
	if raw != "" {
		sent = sentPath(raw)
	}
	add := func(reading string) {
		if reading != first && !slices.Contains(others, reading) {
			others = append(others, reading)
		}
	}
	add(asSent(decoded))
	add(asSent(sent))
	forms := changes([]string{decoded, sent}, late...)
	// nginx cuts before it decodes, and Node converts backslashes too.
	for _, early := range changes([]string{raw}, withoutFragment, withoutBackslashes)[1:] {
		plain, _ := url.PathUnescape(early)
		forms = append(forms, changes([]string{plain, sentPath(early)}, withoutNewline, withoutAuthority,
			withoutParameters)...)
	}
	for _, form := range forms {
		for _, way := range changes([]string{form}, withoutDots) {
			clean := pathpattern.Clean(way)
			add(clean)
			if strings.Contains(clean, "%2F") { // some decode at the end
				add(pathpattern.Clean(strings.ReplaceAll(clean, "%2F", "/")))
			}
		}
	}
	return first, others
}

// maxReadPath is how long a path may be to be read in all ways, in bytes: that takes 0.3 ms for
// each 1,000. Of longer paths are left out the readings of servers that take none: nginx, IIS,
// Tomcat.
const maxReadPath = 8 << 10

// changes returns texts, and what becomes of them by any of some changes, made in their order.
func changes(texts []string, each ...func(string) string) []string {
	for _, change := range each {
		for _, text := range texts {
			if changed := change(text); !slices.Contains(texts, changed) {
				texts = append(texts, changed)
			}
		}
	}
	return texts
}

// withoutNewline takes a newline away from the end of a path. Python's and Perl's patterns do:
// "^login$" fits "login\n".
func withoutNewline(p string) string { return strings.TrimSuffix(p, "\n") }

// withoutFragment cuts a path at a number sign, as URL parsers and nginx do, or at a question mark:
// there is one if it was encoded, and proxies that pass a decoded path on make the beginning of a
// query of it.
func withoutFragment(p string) string {
	if end := strings.IndexAny(p, "#?"); end >= 0 {
		return p[:end]
	}
	return p
}

// withoutBackslashes turns backslashes into slashes, as browsers and Node do.
func withoutBackslashes(p string) string { return strings.ReplaceAll(p, `\`, "/") }

// withoutAuthority takes //host away from the beginning of a path, as URL parsers do. Some skip
// further slashes.
func withoutAuthority(p string) string {
	if !strings.HasPrefix(p, "//") {
		return p
	}
	_, rest, _ := strings.Cut(strings.TrimLeft(p, "/"), "/")
	return "/" + rest
}

// withoutParameters returns a path without what follows a semicolon in each segment.
func withoutParameters(p string) string {
	if strings.IndexByte(p, ';') < 0 {
		return p
	}
	kept, in := make([]byte, 0, len(p)), true
	for i := range len(p) {
		switch p[i] {
		case '/':
			in = true
		case ';':
			in = false
		}
		if in {
			kept = append(kept, p[i])
		}
	}
	return string(kept)
}

// withoutDots removes dot segments by the letter of RFC 3986, where an empty segment is one that
// ".." removes.
func withoutDots(p string) string {
	if !strings.Contains(p, "//") || !strings.Contains(p, "..") {
		return p
	}
	kept := make([]byte, 0, len(p)+1)
	for rest, more := strings.TrimPrefix(p, "/"), true; more; {
		var segment string
		switch segment, rest, more = strings.Cut(rest, "/"); segment {
		case ".":
		case "..":
			kept = kept[:max(bytes.LastIndexByte(kept, '/'), 0)]
		default:
			kept = append(append(kept, '/'), segment...)
		}
	}
	return string(kept)
}

// sentPath returns a path in the segments that it was sent in, each decoded by itself: an encoded
// slash divides nothing.
func sentPath(raw string) string {
	segments := strings.Split(raw, "/")
	for i, s := range segments {
		if plain, err := url.PathUnescape(s); err == nil {
			segments[i] = strings.ReplaceAll(plain, "/", "%2F")
		}
	}
	return strings.Join(segments, "/")
}

// asSent returns a path rooted and without a slash at its end, and otherwise as it is.
func asSent(p string) string {
	if len(p) > 1 {
		p = strings.TrimSuffix(p, "/")
	}
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return p
}
