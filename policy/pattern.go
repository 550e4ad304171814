package policy

import (
	"fmt"
	"strings"

	"github.com/stint-limiter/stint/internal/words"
)

// pattern is a path with variables: segments, and at most one gap for any number of them.
type pattern struct {
	text  string
	begin string // see beginning
	head  []segment
	tail  []segment // after the gap
	gap   bool
}

// segment fits what begins with prefix and ends with suffix, or if exact, what is prefix.
type segment struct {
	name           string // of a variable
	prefix, suffix string
	exact          bool
}

// maxPattern is the longest path of a configuration.
const maxPattern = 1024

const patternForm = `want something like /users/{id}, /static/** or /**/*.css`

func parsePattern(text string) (pattern, error) {
	p := pattern{text: text}
	if !strings.HasPrefix(text, "/") {
		return p, fmt.Errorf("path %q does not begin with /; %s", text, patternForm)
	}
	if len(text) > maxPattern {
		return pattern{}, fmt.Errorf("a path of %d bytes; want at most %d", len(text), maxPattern)
	}
	if strings.ContainsAny(text, "%?#") {
		return p, fmt.Errorf("path %q: paths are decoded and without a query before they are matched; want it without %%, ? and #", text)
	}
	if clean := cleanPath(text); clean != text && clean+"/" != text {
		return p, fmt.Errorf("path %q has empty or dotted segments, and requests are cleaned of them; want %q", text, clean)
	}
	names := map[string]bool{}
	for rest := strings.TrimSuffix(text[1:], "/"); rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, "/")
		if word == "**" {
			if p.gap {
				return p, fmt.Errorf("path %q has ** twice; once is enough to tell", text)
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
		if p.gap {
			p.tail = append(p.tail, s)
		} else {
			p.head = append(p.head, s)
		}
	}
	p.begin = p.beginning()
	return p, nil
}

// beginning is how every path begins that fits: most that do not are told by it at once.
func (p *pattern) beginning() string {
	text := ""
	for i := range p.head {
		text += "/" + p.head[i].prefix
		if !p.head[i].exact {
			break
		}
	}
	return text
}

func parseSegment(word string) (segment, error) {
	if name, ok := strings.CutPrefix(word, "{"); ok {
		name, ok = strings.CutSuffix(name, "}")
		if !ok || !words.IsName(name) {
			return segment{}, fmt.Errorf("%q is no variable: it is a whole segment, {name}", word)
		}
		return segment{name: name}, nil
	}
	if strings.ContainsAny(word, "{}") {
		return segment{}, fmt.Errorf("%q: a variable is a whole segment, {name}", word)
	}
	prefix, suffix, star := strings.Cut(word, "*")
	if strings.Contains(suffix, "*") {
		return segment{}, fmt.Errorf("%q has more than one *; ** stands alone between slashes", word)
	}
	return segment{prefix: prefix, suffix: suffix, exact: !star}, nil
}

func (s *segment) fits(word string, folded bool) bool {
	prefix, suffix := len(s.prefix), len(s.suffix)
	if s.exact {
		return len(word) == prefix && same(word, s.prefix, folded)
	}
	return word != "" && len(word) >= prefix+suffix &&
		same(word[:prefix], s.prefix, folded) && same(word[len(word)-suffix:], s.suffix, folded)
}

// same reports whether two texts of the same length are equal, or equal but for the case of their letters.
func same(a, b string, folded bool) bool { return a == b || folded && strings.EqualFold(a, b) }

// fits reports whether a clean path fits, or would but for the case of its letters.
func (p *pattern) fits(clean string, folded bool) bool {
	if len(clean) < len(p.begin) || !same(clean[:len(p.begin)], p.begin, folded) {
		return false
	}
	rest := clean[1:]
	for i := range p.head {
		word, after, more := strings.Cut(rest, "/")
		if rest == "" || !p.head[i].fits(word, folded) {
			return false
		}
		if rest = after; !more && i < len(p.head)-1 {
			return false
		}
	}
	if !p.gap {
		return rest == ""
	}
	for i := len(p.tail) - 1; i >= 0; i-- {
		if rest == "" {
			return false
		}
		cut := strings.LastIndexByte(rest, '/')
		if !p.tail[i].fits(rest[cut+1:], folded) {
			return false
		}
		rest = rest[:max(cut, 0)]
	}
	return true
}

// value returns what a variable stands for in a clean path that fits.
func (p *pattern) value(clean, name string) (string, bool) {
	words := strings.Split(clean[1:], "/")
	for i := range p.head {
		if p.head[i].name == name {
			return words[i], true
		}
	}
	for i := range p.tail {
		if p.tail[i].name == name {
			return words[len(words)-len(p.tail)+i], true
		}
	}
	return "", false
}

// names appends the names of the pattern's variables.
func (p *pattern) names(to []string) []string {
	for _, part := range [][]segment{p.head, p.tail} {
		for i := range part {
			if part[i].name != "" {
				to = append(to, part[i].name)
			}
		}
	}
	return to
}
