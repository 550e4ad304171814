package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-limiter/stint/internal/messages"
)

type mistake struct {
	// Field is the location of the mistake, such as "limits[0]". It is "" for the body itself.
	Field string `json:"field"`
	// Message describes the mistake, and says what is expected instead.
	Message string `json:"message"`
}

const maxMistakes = 50

// reader reads a body strictly: a member that is unknown, duplicate or of the wrong type is a
// mistake. A null member counts as absent. After a mistake, reader continues, so that all mistakes
// are reported together.
type reader struct {
	tokens   *json.Decoder
	ahead    json.Token // the next token, if it has been read
	looked   bool       // whether the next token is in ahead
	path     []string
	mistakes []mistake
	count    int  // number of mistakes, including those that are not reported
	alwaysOK bool // whether denials also have status 200
}

// newReader returns a reader of body. A body that is not JSON in UTF-8 is a mistake.
func newReader(body []byte) *reader {
	r := &reader{}
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(body, new(json.RawMessage)); {
	case len(bytes.TrimSpace(body)) == 0:
		r.wrong("is empty; want a JSON object")
	case errors.As(err, &syntax):
		r.wrong("is not JSON: %v, at byte %d", syntax, syntax.Offset)
	case err != nil:
		r.wrong("is not JSON: %v", err)
	case !utf8.Valid(body):
		r.wrong("is not UTF-8")
	default:
		r.tokens = json.NewDecoder(bytes.NewReader(body))
		r.tokens.UseNumber()
	}
	return r
}

func (r *reader) ok() bool { return r.count == 0 }

func (r *reader) wrong(format string, args ...any) {
	r.count++
	if len(r.mistakes) < maxMistakes {
		r.mistakes = append(r.mistakes,
			mistake{strings.TrimPrefix(strings.Join(r.path, ""), "."), fmt.Sprintf(format, args...)})
	}
}

// wrongIn reports a mistake in a member of the value at the current path.
func (r *reader) wrongIn(name, format string, args ...any) {
	r.in("."+name, func() { r.wrong(format, args...) })
}

// in calls the function do with segment appended to the path of the current value, so that do
// reports mistakes at the longer path.
func (r *reader) in(segment string, do func()) {
	r.path = append(r.path, segment)
	do()
	r.path = r.path[:len(r.path)-1]
}

// object reads an object, and calls member with the name of each known member. Null members count
// as absent.
func (r *reader) object(known []string, member func(name string)) {
	r.each(func(name string) {
		switch {
		case !slices.Contains(known, name):
			r.unknown(name, known)
			r.skip()
		case r.null():
			r.skip()
		default:
			member(name)
		}
	})
}

func (r *reader) unknown(name string, known []string) {
	hint := ""
	if len(r.mistakes) < maxMistakes { // hints are slow to find, and other mistakes are not listed
		hint = messages.Hint(name, known)
	}
	r.wrong("unknown field%s; want %s", hint, strings.Join(known, ", "))
}

// members reads an object with any member names, and calls member with each of them. Null members
// count as absent. The parameter most is the maximum number of members, and the parameter what is
// the word that messages use for them.
func (r *reader) members(most int, what string, member func(name string)) {
	n := 0
	r.each(func(name string) {
		null := r.null()
		if !null {
			n++
		}
		if null || n > most {
			r.skip()
			return
		}
		member(name)
	})
	if n > most {
		r.wrong("has %d %s; want at most %d", n, what, most)
	}
}

// each reads an object, and calls member with each distinct name. A duplicate name is a mistake.
func (r *reader) each(member func(name string)) {
	if !r.begins('{', "an object") {
		return
	}
	seen := map[string]bool{}
	for r.tokens.More() {
		name := r.next().(string) // always a string, because the object is well-formed
		r.in("."+shown(name), func() {
			if seen[name] {
				r.wrong("duplicate field")
				r.skip()
				return
			}
			seen[name] = true
			member(name)
		})
	}
	r.next()
}

// array reads an array, and calls element with the index of each element. The parameter most is the
// maximum number of elements, and the parameter what is the word that messages use for them.
func (r *reader) array(most int, what string, element func(i int)) {
	if !r.begins('[', "an array of "+what) {
		return
	}
	n := 0
	for ; r.tokens.More(); n++ {
		if n >= most {
			r.skip()
			continue
		}
		r.in("["+strconv.Itoa(n)+"]", func() { element(n) })
	}
	r.next()
	if n > most {
		r.wrong("has %d %s; want at most %d", n, what, most)
	}
}

// begins reads the beginning of an object or an array. If the next value is of another type, begins
// reports a mistake, skips the value and returns false.
func (r *reader) begins(delim json.Delim, want string) bool {
	t := r.next()
	if t == delim {
		return true
	}
	r.unwanted(t, want)
	return false
}

// text reads a valid string whose length in bytes is between least and most. For any other value,
// it reports a mistake and returns "".
func (r *reader) text(least, most int) string {
	t := r.next()
	s, ok := t.(string)
	switch {
	case !ok:
		r.unwanted(t, "a string")
	case len(s) < least || len(s) > most:
		r.wrong("has %d bytes; want %d to %d", len(s), least, most)
	case strings.ContainsRune(s, utf8.RuneError):
		r.wrong("has an invalid character: half of a surrogate pair, or U+FFFD")
	default:
		return s
	}
	return ""
}

func (r *reader) whole(least, most int64) int64 {
	t := r.next()
	number, ok := t.(json.Number)
	if !ok {
		r.unwanted(t, "a whole number")
		return 0
	}
	n, ok := integer(number.String())
	if !ok || n < least || n > most {
		r.wrong("is %s; want a whole number from %d to %d", shown(number.String()), least, most)
		return 0
	}
	return n
}

// seconds reads a positive duration: a number of seconds, possibly with a fraction.
func (r *reader) seconds(most time.Duration) time.Duration {
	t := r.next()
	number, ok := t.(json.Number)
	if !ok {
		r.unwanted(t, "a number of seconds")
		return 0
	}
	n, err := number.Float64()
	if err != nil || n < 1e-6 || n > most.Seconds() { // the only possible error is a range error
		r.wrong("is %s; want a number of seconds from 0.000001 to %.0f", shown(number.String()), most.Seconds())
		return 0
	}
	return time.Duration(math.Round(n * float64(time.Second)))
}

// integer parses an integer in any form that JSON allows: 10, 10.0 and 1e1 are the same integer.
func integer(number string) (n int64, ok bool) {
	mantissa, power, scientific := strings.Cut(strings.ToLower(number), "e")
	exponent := 0
	if scientific {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil {
			return 0, false
		}
	}
	before, after, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(before+after, "0")
	if digits == "" || digits == "-" {
		return 0, true
	}
	const most = 18 // 1e18 is the largest power of ten in an int64
	zeros := exponent - len(after) + len(before+after) - len(digits)
	if zeros < 0 || zeros > most {
		return 0, false
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", zeros), 10, 64)
	return n, err == nil
}

// unwanted reports a value of the wrong type, and skips it. t is the first token of the value.
func (r *reader) unwanted(t json.Token, want string) {
	got := "null"
	switch v := t.(type) {
	case json.Delim:
		got = map[json.Delim]string{'{': "an object", '[': "an array"}[v]
		r.leave()
	case string:
		got = "a string"
	case json.Number:
		got = "a number"
	case bool:
		got = strconv.FormatBool(v)
	}
	r.wrong("is %s; want %s", got, want)
}

func (r *reader) skip() {
	if _, ok := r.next().(json.Delim); ok {
		r.leave()
	}
}

// leave skips the rest of the current object or array.
func (r *reader) leave() {
	for depth := 1; depth > 0; {
		switch r.next() {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

// null reports whether the next value is null, without consuming the value.
func (r *reader) null() bool {
	r.ahead, r.looked = r.next(), true
	return r.ahead == nil
}

// next returns the next token. There always is one, because newReader has checked that the body is
// well-formed.
func (r *reader) next() json.Token {
	if r.looked {
		r.looked = false
		return r.ahead
	}
	t, _ := r.tokens.Token()
	return t
}

func shown(s string) string { return messages.Shorten(s, 64) }
