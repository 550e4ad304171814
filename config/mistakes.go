package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/stint-limiter/stint/internal/messages"
)

// Mistake is a mistake in a configuration, or a warning about it.
type Mistake struct {
	// File is the name of the file. Line is the line number, starting at 1, or 0 if the mistake has
	// none.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Key is the path of the key in the file, such as "tiers[1].limits[0]". It is "" for the whole
	// file.
	Key string `json:"key,omitempty"`
	// Message says what is wrong, and how to fix it.
	Message string `json:"message"`
	// Warning means that the setting is valid, but probably does not do what was intended.
	Warning bool `json:"warning,omitempty"`
}

// text formats the mistake on one line: "stint.yaml:12: tiers[1].limits[0]: …".
func (m *Mistake) text() string {
	text := m.File + ": "
	if m.Line > 0 {
		text = fmt.Sprintf("%s:%d: ", m.File, m.Line)
	}
	if m.Warning {
		text += "warning: "
	}
	if m.Key != "" {
		text += m.Key + ": "
	}
	return text + m.Message
}

// Error lists the mistakes and warnings in a configuration, sorted by file and line.
type Error struct{ Mistakes []Mistake }

// maxMistakes is the maximum number of mistakes that are kept, and also the maximum number of
// warnings.
const maxMistakes = 1000

// mostShown is the maximum number of mistakes in the text of an Error. If there are more, they
// usually have a common cause.
const mostShown = 50

// Error returns the first 50 mistakes, one per line, and says how many more there are.
func (e *Error) Error() string {
	lines := make([]string, 0, mostShown+1)
	for i, m := range e.Mistakes {
		if i == mostShown {
			lines = append(lines, fmt.Sprintf("and %d more mistakes", len(e.Mistakes)-i))
			break
		}
		lines = append(lines, m.text())
	}
	return strings.Join(lines, "\n")
}

// reader collects the mistakes in a configuration. It holds the position of every key. Keys are
// paths in the whole configuration: tiers[2] may be the first tier of the second file.
type reader struct {
	files     []source
	positions map[string]position
	mistakes  []found
	warned    []found
	// unread holds the keys whose values could not be read. unsure holds the parents of these keys.
	unread, unsure map[string]bool
	// blind is true if so much could not be read that checking the rest would find false mistakes.
	blind bool
}

// source is a file. The fields tiers, policies and webhooks are the numbers of tiers, policies and
// webhooks in all files before it.
type source struct {
	name                      string
	tiers, policies, webhooks int
}

type position struct{ file, line int }

// found is a mistake with its position, by which mistakes are sorted.
type found struct {
	position
	Mistake
}

func newReader() *reader {
	return &reader{positions: map[string]position{}, unread: map[string]bool{}, unsure: map[string]bool{}}
}

func (r *reader) has(key string) bool {
	_, ok := r.positions[key]
	return ok
}

// mistake records a mistake at the position of a key, or of the nearest parent that has a position.
// It records nothing if the value of the key could not be read, because that may be the only cause
// of the mistake.
func (r *reader) mistake(key, format string, args ...any) {
	if !r.lacks(key) {
		r.note(r.nearest(key), key, format, args...)
	}
}

// warn records a warning about a setting that is probably not intended. Warnings are counted
// separately, so that many warnings do not displace mistakes.
func (r *reader) warn(key, format string, args ...any) {
	if !r.lacks(key) && len(r.warned) < maxMistakes {
		w := r.found(r.nearest(key), key, format, args...)
		w.Warning = true
		r.warned = append(r.warned, w)
	}
}

// lacks reports whether the value of a key, or a part of it, could not be read.
func (r *reader) lacks(key string) bool {
	if r.unsure[key] {
		return true
	}
	for ; key != ""; key = parent(key) {
		if r.unread[key] {
			return true
		}
	}
	return false
}

// cannotRead records that the value of a key could not be read. The key "" stands for a whole file.
// If a whole file could not be read, nothing else is checked.
func (r *reader) cannotRead(key string) {
	r.blind = r.blind || key == ""
	r.unread[key] = true
	for k := parent(key); k != ""; k = parent(k) {
		r.unsure[k] = true
	}
}

func (r *reader) note(p position, key, format string, args ...any) {
	if len(r.mistakes) < maxMistakes {
		r.mistakes = append(r.mistakes, r.found(p, key, format, args...))
	}
}

func (r *reader) found(p position, key, format string, args ...any) found {
	p.line = max(1, p.line)
	file := r.files[p.file]
	return found{p, Mistake{
		File:    file.name,
		Line:    p.line,
		Key:     oneLine(file.local(key)),
		Message: oneLine(fmt.Sprintf(format, args...)),
	}}
}

// nearest returns the position of a key, or of its nearest parent that has a position. If no parent
// has a position, it returns the first line of the first file.
func (r *reader) nearest(key string) position {
	for ; key != ""; key = parent(key) {
		if p, ok := r.positions[key]; ok {
			return p
		}
	}
	return position{line: 1}
}

func (r *reader) where(p position) string { return fmt.Sprintf("%s:%d", r.files[p.file].name, p.line) }

// all returns the mistakes and warnings, sorted by position. wrong reports whether at least one of
// them is a mistake.
func (r *reader) all() (mistakes []Mistake, wrong bool) {
	all := slices.Concat(r.mistakes, r.warned)
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	for _, m := range all {
		mistakes = append(mistakes, m.Mistake)
	}
	return mistakes, len(r.mistakes) > 0
}

// local converts a key in the whole configuration to the key in its file: tiers[2] may become
// tiers[0].
func (s source) local(key string) string {
	for section, before := range map[string]int{"tiers[": s.tiers, "policies[": s.policies, "webhooks[": s.webhooks} {
		rest, ok := strings.CutPrefix(key, section)
		digits, rest, closed := strings.Cut(rest, "]")
		if n, err := strconv.Atoi(digits); ok && closed && err == nil && n >= before {
			return section + strconv.Itoa(n-before) + "]" + rest
		}
	}
	return key
}

// parent returns the key that contains a key. It returns "" at the top level.
func parent(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }

// oneLine shortens a long string, and replaces characters that would break or disguise a log line.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, messages.Shorten(s, 1000))
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func item(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }
