// Package whatwg interprets a request target the way applications with a WHATWG URL parser do. Most
// servers on Node, Deno and Bun are such applications:
//
//	new URL(request.url, "http://application").pathname
//
// The package is for tests. The expected values in its own tests come from Node.
package whatwg

import (
	"slices"
	"strings"
)

// Pathname returns the path that an application with a WHATWG URL parser reads from a target. It
// returns false if there is no path because the host is empty. Pathname does not check hosts and
// ports in any other way, so it also returns a path for some targets that Node rejects because of
// their host or port.
func Pathname(target string) (path string, ok bool) {
	target = strings.TrimFunc(target, func(c rune) bool { return c <= ' ' })
	target = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(target)
	scheme, rest := cutScheme(target)
	u := parser{special: scheme == "" || slices.Contains(special, scheme)}
	slashes := len(rest) - len(strings.TrimLeft(rest, u.slashes()))
	switch {
	case scheme == "" || scheme == "http": // relative to the base, unless there is an authority
		if slashes < 2 {
			return u.path(rest), true
		}
		rest = rest[slashes:]
	case scheme == "file":
		if slashes < 2 {
			return u.path(rest), true
		}
		rest = rest[2:]
	case u.special:
		rest = rest[slashes:]
	case strings.HasPrefix(rest, "//"):
		rest = rest[2:]
	case slashes == 0:
		return opaque(rest), true
	default:
		return u.path(rest), true
	}
	end := strings.IndexAny(rest, u.slashes()+"?#")
	if end < 0 {
		end = len(rest)
	}
	host := rest[strings.LastIndexByte(rest[:end], '@')+1 : end]
	if name, _, _ := strings.Cut(host, ":"); name == "" && u.special && scheme != "file" {
		return "", false
	}
	if rest = rest[end:]; !u.special && (rest == "" || rest[0] != '/') {
		return "", true
	}
	return u.path(rest), true
}

// special lists the schemes for which a backslash is a slash and a URL always has a path.
var special = []string{"http", "https", "ws", "wss", "ftp", "file"}

// cutScheme returns the scheme in lower case and the text after its colon or, if there is no
// scheme, "" and the whole target.
func cutScheme(target string) (scheme, rest string) {
	for i := range len(target) {
		c := target[i] | 0x20
		letter := 'a' <= c && c <= 'z'
		switch {
		case letter || i > 0 && ('0' <= target[i] && target[i] <= '9' || strings.IndexByte("+-.", target[i]) >= 0):
		case i > 0 && target[i] == ':':
			return strings.ToLower(target[:i]), target[i+1:]
		default:
			return "", target
		}
	}
	return "", target
}

// opaque returns the path of a URL that has no slash after its scheme, such as mailto:user.
func opaque(rest string) string {
	return escape(untilQuery(rest), "")
}

func untilQuery(rest string) string {
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		return rest[:end]
	}
	return rest
}

type parser struct{ special bool }

func (u parser) slashes() string {
	if u.special {
		return `/\`
	}
	return "/"
}

// path returns the path at the beginning of rest, without dot segments. It keeps empty segments.
func (u parser) path(rest string) string {
	rest = untilQuery(rest)
	if u.special {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	words := strings.Split(strings.TrimPrefix(rest, "/"), "/")
	var segments []string
	for i, word := range words {
		last := i == len(words)-1
		switch strings.ReplaceAll(strings.ToLower(word), "%2e", ".") {
		case "..":
			segments = segments[:max(0, len(segments)-1)]
			fallthrough
		case ".":
			if last {
				segments = append(segments, "")
			}
		default:
			segments = append(segments, escape(word, "\"#<>?`{} "))
		}
	}
	return "/" + strings.Join(segments, "/")
}

// escape percent-encodes the bytes in set, control characters, and bytes beyond ASCII. Like Node,
// it treats each byte of a target as one character, and encodes the UTF-8 form of that character.
func escape(text, set string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c > ' '-1 && c < 0x7f && strings.IndexByte(set, c) < 0 {
			b.WriteByte(c)
			continue
		}
		for _, e := range []byte(string(rune(c))) {
			const digits = "0123456789ABCDEF"
			b.Write([]byte{'%', digits[e>>4], digits[e&15]})
		}
	}
	return b.String()
}
