package policy

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/pathpattern"
)

// steps are the transformations that servers and frameworks apply to a path. Servers and frameworks
// differ in their steps and in the order of the steps, so each path that some sequence of steps
// produces is a reading. See docs/design.md.
var steps = [...]func(string) string{
	decoded, decodedInSegments, withoutEmpty, withoutDots, withoutBackslashes, cutAtNumberSign, cutAtQuestionMark,
	cutAtNUL, withoutParameters, withoutLastParameters, withoutNewlines, withoutControls, trimmed, withoutAuthority,
	withoutScript, behindScript,
}

// These constants limit the number of readings of a request and the total bytes of their paths. A
// request that exceeds them is denied: no client sends such a request by accident, and deciding it
// would take too long.
const (
	maxReadings     = 32
	maxReadingBytes = 32 << 10
)

// isPlain reports whether a path is plain, as most are: lower-case ASCII without anything that a
// step may change. dot is the index of the last dot in the last segment, where the segment's ending
// begins. It is 0 if there is no dot or the path is not plain.
func isPlain(p string) (plain bool, dot int) {
	if p == "" || p[0] != '/' {
		return false, 0
	}
	for i := range len(p) {
		c := p[i]
		if 'a' <= c && c <= 'z' {
			continue
		}
		switch {
		case c == '/' && i+1 < len(p):
			if p[i+1] == '/' || p[i+1] == '.' || i > len(script) && strings.EqualFold(p[i-len(script):i], script) {
				return false, 0
			}
			dot = 0
		case c == '.':
			dot = i
		case c == '/' && i > 0, c <= ' ', c >= 0x7f, 'A' <= c && c <= 'Z', strings.IndexByte(`\#?;%`, c) >= 0:
			return false, 0
		}
	}
	return true, dot
}

// readPath returns the readings of a path. The argument path is decoded; raw is the path as it was
// sent, or "" if both are the same. The first reading is the path as net/http's mux reads it,
// without empty segments and dot segments. If there are too many readings, only the first is
// returned, and ok is false.
func readPath(path, raw string) (readings []string, ok bool) {
	readings = []string{pathpattern.Clean(path)}
	size := len(readings[0])
	if size+len(raw) > maxReadingBytes {
		return readings, false
	}
	add := func(text string) {
		if text = rooted(text); !slices.Contains(readings, text) {
			readings = append(readings, text)
			size += len(text)
		}
	}
	if add(path); raw != "" {
		add(raw)
	}
	for i := 0; i < len(readings); i++ {
		for _, step := range steps {
			add(step(readings[i]))
		}
		if len(readings) > maxReadings || size > maxReadingBytes {
			return readings[:1], false
		}
	}
	return readings, true
}

// rooted returns a path with a leading slash and without trailing slashes.
func rooted(p string) string {
	if p = strings.TrimRight(p, "/"); p == "" || p[0] != '/' {
		return "/" + p
	}
	return p
}

// decoded decodes every percent-encoded byte once. [readPath] repeats it, because some frameworks
// decode until nothing changes.
func decoded(p string) string { return unescape(p, true) }

// decodedInSegments decodes all percent-encoded bytes except slashes.
func decodedInSegments(p string) string { return unescape(p, false) }

func unescape(p string, slashes bool) string {
	at := strings.IndexByte(p, '%')
	if at < 0 {
		return p
	}
	b := append(make([]byte, 0, len(p)), p[:at]...)
	for ; at < len(p); at++ {
		c := p[at]
		if c == '%' && at+2 < len(p) && isHex(p[at+1]) && isHex(p[at+2]) {
			c = fromHex(p[at+1])<<4 | fromHex(p[at+2])
			if at += 2; c == '/' && !slashes {
				b = append(b, "%2F"...)
				continue
			}
		}
		b = append(b, c)
	}
	return string(b)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func fromHex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&7 + 9
}

// withoutEmpty removes empty segments, as most servers do.
func withoutEmpty(p string) string {
	if !strings.Contains(p, "//") {
		return p
	}
	b := make([]byte, 0, len(p))
	for i := range len(p) {
		if p[i] != '/' || i == 0 || p[i-1] != '/' {
			b = append(b, p[i])
		}
	}
	return string(b)
}

// withoutDots removes dot segments exactly as in RFC 3986, where ".." can remove an empty segment.
func withoutDots(p string) string {
	if !strings.Contains(p, "/.") {
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

// withoutBackslashes turns backslashes into slashes, as browsers, Node and IIS do.
func withoutBackslashes(p string) string { return strings.ReplaceAll(p, `\`, "/") }

// cutAtNumberSign cuts a path where a fragment begins, as URL parsers and nginx do.
func cutAtNumberSign(p string) string { return cutAt(p, '#') }

// cutAtQuestionMark cuts a path where a query begins. A decoded path contains a question mark if
// the client sent it encoded. If a proxy passes on the decoded path, servers take the text after
// the question mark for a query.
func cutAtQuestionMark(p string) string { return cutAt(p, '?') }

// cutAtNUL cuts a path at the first NUL, as C programs do.
func cutAtNUL(p string) string { return cutAt(p, 0) }

func cutAt(p string, c byte) string {
	if end := strings.IndexByte(p, c); end >= 0 {
		return p[:end]
	}
	return p
}

// withoutParameters removes the first semicolon of each segment and the text after it, as Java
// servlet containers do.
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

// withoutLastParameters removes the first semicolon of the last segment and the text after it, as
// Python's urlparse does.
func withoutLastParameters(p string) string {
	last := strings.LastIndexByte(p, '/') + 1
	return p[:last] + cutAt(p[last:], ';')
}

// withoutNewlines removes tabs and newlines, as URL parsers do if they receive a decoded path.
func withoutNewlines(p string) string {
	return without(p, func(c byte) bool { return c == '\t' || c == '\n' || c == '\r' })
}

func withoutControls(p string) string {
	return without(p, func(c byte) bool { return c < ' ' || c == 0x7f })
}

// without removes all bytes for which drop returns true. It must be fast, because clients choose
// the path.
func without(p string, drop func(byte) bool) string {
	if !slices.ContainsFunc([]byte(p), drop) { // a conversion without a copy
		return p
	}
	return string(slices.DeleteFunc([]byte(p), drop))
}

// trimmed removes trailing white space, as many frameworks do. For example, the pattern "^login$"
// matches "login\n" in Python and Perl. Bytes that are not valid UTF-8 are read as Latin-1.
func trimmed(p string) string {
	for {
		c, size := utf8.DecodeLastRuneInString(p)
		if c == utf8.RuneError && size == 1 {
			c = rune(p[len(p)-1])
		}
		if size == 0 || !unicode.IsSpace(c) && c != '\ufeff' {
			return p
		}
		p = p[:len(p)-size]
	}
}

// withoutAuthority removes //host from the beginning of a path, as URL parsers do. Like some
// parsers, it also removes further slashes before the host.
func withoutAuthority(p string) string {
	if !strings.HasPrefix(p, "//") {
		return p
	}
	_, rest, _ := strings.Cut(strings.TrimLeft(p, "/"), "/")
	return "/" + rest
}

// script is the file extension of front controllers; its case is ignored. A front controller is a
// PHP script, such as index.php, that handles all paths below its own.
const script = ".php"

// withoutScript removes the first segment that names a front controller, if more segments follow:
// /app/index.php/login becomes /app/login.
func withoutScript(p string) string {
	begin, end := scriptIn(p)
	return p[:begin] + p[end:]
}

// behindScript returns the path after the front controller, such as /login. PHP passes this path to
// the controller.
func behindScript(p string) string {
	_, end := scriptIn(p)
	return p[end:]
}

// scriptIn returns the range p[begin:end] of the first segment that names a front controller. The
// range includes the slash before the segment, but not the slash after it. If there is none,
// scriptIn returns 0 and 0.
func scriptIn(p string) (begin, end int) {
	for at := strings.IndexByte(p, '.'); at >= 0 && at+len(script) < len(p); {
		if end = at + len(script); p[end] == '/' && strings.EqualFold(p[at:end], script) {
			return max(strings.LastIndexByte(p[:at], '/'), 0), end
		}
		next := strings.IndexByte(p[at+1:], '.')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return 0, 0
}

// withoutEnding removes the last dot of the last segment and the text after it, which the Rails
// router treats as a format. It reports false if there is no ending.
func withoutEnding(p string) (string, bool) {
	dot := strings.LastIndexByte(p, '.')
	if dot <= strings.LastIndexByte(p, '/')+1 {
		return p, false
	}
	return p[:dot], true
}
