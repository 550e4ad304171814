// Package pathpattern matches paths with patterns such as /users/{id} and /static/**.
package pathpattern

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/syntax"
)

// Pattern is a path with variables. It has segments and at most one gap (**), which stands for any
// number of segments.
type Pattern struct {
	// Text is the pattern as written.
	Text string

	gap   bool
	exact segments
	fold  segments
}

// segments holds the segments before the gap and those after it. If there is no gap, all are in
// head.
type segments struct {
	head, tail []segment
	begin      string // common prefix of all paths that fit; it quickly rules out most other paths
}

// segment is a segment of a pattern. It fits a word, which is a segment of a path, if the word
// begins with prefix and ends with suffix. If exact is true, the word must be equal to prefix.
type segment struct {
	name           string // name of a variable, or ""
	prefix, suffix string
	exact          bool
}

// maxPattern is the maximum length of a pattern in bytes.
const maxPattern = 1024

const patternForm = `want something like /users/{id}, /static/** or /**/*.css`

// Parse parses a pattern. The error says how to fix the pattern.
func Parse(text string) (Pattern, error) {
	p := Pattern{Text: text}
	if !strings.HasPrefix(text, "/") {
		return p, fmt.Errorf("path %q does not begin with /; %s", text, patternForm)
	}
	if len(text) > maxPattern {
		return Pattern{}, fmt.Errorf("path of %d bytes; want at most %d", len(text), maxPattern)
	}
	if strings.ContainsAny(text, "%?#") {
		return p, fmt.Errorf("path %q: requests are matched by their decoded path without the query; want it without %%, ? and #", text)
	}
	if clean := Clean(text); clean != text && clean+"/" != text {
		return p, fmt.Errorf("path %q has empty or dot segments, which are removed from requests; want %q", text, clean)
	}
	names := map[string]bool{}
	for rest := strings.TrimSuffix(text[1:], "/"); rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, "/")
		if word == "**" {
			if p.gap {
				return p, fmt.Errorf("path %q has ** twice; use it once", text)
			}
			p.gap = true
			continue
		}
		s, err := parseSegment(word)
		if err != nil {
			return p, fmt.Errorf("path %q: %w; %s", text, err, patternForm)
		}
		if s.name != "" && names[s.name] {
			return p, fmt.Errorf("path %q has the variable {%s} twice", text, s.name)
		}
		names[s.name] = true
		folded := segment{s.name, Fold(s.prefix), Fold(s.suffix), s.exact}
		if p.gap {
			p.exact.tail, p.fold.tail = append(p.exact.tail, s), append(p.fold.tail, folded)
		} else {
			p.exact.head, p.fold.head = append(p.exact.head, s), append(p.fold.head, folded)
		}
	}
	p.exact.begin, p.fold.begin = p.exact.beginning(), p.fold.beginning()
	return p, nil
}

func (s *segments) beginning() string {
	text := ""
	for i := range s.head {
		text += "/" + s.head[i].prefix
		if !s.head[i].exact {
			break
		}
	}
	return text
}

func parseSegment(word string) (segment, error) {
	if name, ok := strings.CutPrefix(word, "{"); ok {
		name, ok = strings.CutSuffix(name, "}")
		if !ok || !syntax.IsName(name) {
			return segment{}, fmt.Errorf("invalid variable %q; want a whole segment, {name}", word)
		}
		return segment{name: name}, nil
	}
	if strings.ContainsAny(word, "{}") {
		return segment{}, fmt.Errorf("invalid segment %q: a variable is a whole segment, {name}", word)
	}
	prefix, suffix, star := strings.Cut(word, "*")
	if strings.Contains(suffix, "*") {
		return segment{}, fmt.Errorf("%q has more than one *; ** stands alone between slashes", word)
	}
	return segment{prefix: prefix, suffix: suffix, exact: !star}, nil
}

func (s *segment) fits(word string) bool {
	if s.exact {
		return word == s.prefix
	}
	return word != "" && len(word) >= len(s.prefix)+len(s.suffix) &&
		strings.HasPrefix(word, s.prefix) && strings.HasSuffix(word, s.suffix)
}

// Fold returns text in a form for comparisons that ignore case. It maps all letters that differ
// only in case to the same letter, including letters beyond ASCII.
func Fold(text string) string {
	return strings.Map(func(c rune) rune {
		least := c
		if c == '\u0130' || c == '\u0131' { // İ and ı, which Python treats as equal to i
			return 'i'
		}
		if c >= utf8.RuneSelf {
			for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
				least = min(least, other)
			}
		}
		return unicode.ToLower(least)
	}, text)
}

// Begins reports whether a path begins with the common prefix of all paths that fit the pattern.
// This check rules out most paths, and the compiler inlines it.
func (p *Pattern) Begins(path string) bool { return strings.HasPrefix(path, p.exact.begin) }

// Fits reports whether a path fits the pattern. The path must be a result of [Clean].
func (p *Pattern) Fits(clean string) bool { return p.Begins(clean) && p.fits(clean, &p.exact) }

// FitsFolded reports whether a path fits the pattern if case is ignored. The path must be a result
// of [Clean], folded by [Fold].
func (p *Pattern) FitsFolded(folded string) bool {
	return strings.HasPrefix(folded, p.fold.begin) && p.fits(folded, &p.fold)
}

func (p *Pattern) fits(path string, want *segments) bool {
	rest := path[1:]
	for i := range want.head {
		word, after, more := strings.Cut(rest, "/")
		if rest == "" || !want.head[i].fits(word) {
			return false
		}
		if rest = after; !more && i < len(want.head)-1 {
			return false
		}
	}
	if !p.gap {
		return rest == ""
	}
	for i := len(want.tail) - 1; i >= 0; i-- {
		if rest == "" {
			return false
		}
		cut := strings.LastIndexByte(rest, '/')
		if !want.tail[i].fits(rest[cut+1:]) {
			return false
		}
		rest = rest[:max(cut, 0)]
	}
	return true
}

// Ends reports whether a match depends on how the last segment of a path ends.
func (p *Pattern) Ends() bool {
	last := p.exact.tail
	if !p.gap {
		last = p.exact.head
	}
	return len(last) > 0 && (last[len(last)-1].exact || last[len(last)-1].suffix != "")
}

// Value returns the value of a variable in a clean path that fits the pattern. It reports false if
// the pattern has no such variable.
func (p *Pattern) Value(clean, name string) (string, bool) {
	words := strings.Split(clean[1:], "/")
	for i := range p.exact.head {
		if p.exact.head[i].name == name {
			return words[i], true
		}
	}
	for i := range p.exact.tail {
		if p.exact.tail[i].name == name {
			return words[len(words)-len(p.exact.tail)+i], true
		}
	}
	return "", false
}

// Names returns the names of the pattern's variables.
func (p *Pattern) Names() (names []string) {
	for _, part := range [][]segment{p.exact.head, p.exact.tail} {
		for i := range part {
			if part[i].name != "" {
				names = append(names, part[i].name)
			}
		}
	}
	return names
}

// Prefix returns the part of the pattern before a final "/**", such as "/api" for "/api/**". It
// also reports whether the pattern matches exactly this path and all paths below it. If so, the
// pattern ends in /** and has no variables or other wildcards.
func (p *Pattern) Prefix() (string, bool) {
	literal := p.gap && len(p.exact.tail) == 0
	for i := range p.exact.head {
		literal = literal && p.exact.head[i].exact
	}
	return strings.TrimSuffix(strings.TrimSuffix(p.Text, "/"), "/**"), literal
}

// Clean returns a path in clean form: it begins with a slash and has no empty segments, no dot
// segments and no trailing slash.
func Clean(p string) string {
	if p == "" {
		return "/"
	}
	if p[0] == '/' && !untidy(p) {
		return p
	}
	return path.Clean("/" + p)
}

// untidy reports whether a path that begins with a slash may need cleaning. It also reports true
// for a path with a segment that begins with a dot, but is not a dot segment.
func untidy(p string) bool {
	return strings.Contains(p, "//") || strings.Contains(p, "/.") || len(p) > 1 && p[len(p)-1] == '/'
}

// Dotted reports whether a path has dot segments. These include segments with a parameter ("..;x")
// or between backslashes, which only some servers treat as dot segments.
func Dotted(path string) bool {
	if !strings.Contains(path, ".") {
		return false
	}
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}
