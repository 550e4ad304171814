package tokens

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// plainEvents returns the data of the events of a stream, as the standard has it, and whether an
// empty line ends the last of them.
func plainEvents(body []byte) (events []string, ended bool) {
	text := strings.ReplaceAll(strings.ReplaceAll(string(body), "\r\n", "\n"), "\r", "\n")
	var data []string
	for line := range strings.SplitAfterSeq(text, "\n") {
		switch value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), dataField); {
		case ok:
			data = append(data, value)
		case line == "\n":
			events, data = append(events, strings.Join(data, "\n")), nil
		}
	}
	if data == nil {
		return events, true
	}
	return append(events, strings.Join(data, "\n")), false
}

// plainCounts is a reference for a meter of a preset: it parses whole events with encoding/json. It
// is false for streams that encoding/json and a scanner need not read in the same way: with text
// that is not JSON, duplicate keys, numbers that are too long, or two different values of a number.
func plainCounts(c *Config, body []byte) (Counts, bool) {
	counts := Counts{Input: -1, Output: -1, Cached: -1}
	if !utf8.Valid(body) {
		return counts, false
	}
	kinds := []struct {
		pointers []string
		sum      *int64
	}{{c.Input, &counts.Input}, {c.Output, &counts.Output}, {c.Cached, &counts.Cached}}
	numbers := make([]map[string]int64, len(kinds)) // the last of each name
	for i := range numbers {
		numbers[i] = map[string]int64{}
	}
	events, ended := plainEvents(body)
	for i, data := range events {
		if !strings.ContainsAny(data, `"{`) {
			continue // such as the last event of OpenAI
		}
		decoder := json.NewDecoder(strings.NewReader(data))
		decoder.UseNumber()
		var value any
		if decoder.Decode(&value) != nil || !json.Valid([]byte(data)) || duplicateKeys(data) {
			return counts, false
		}
		documents := []any{value}
		if list, ok := value.([]any); ok {
			documents = list
		} else if _, ok := value.(map[string]any); ok && (ended || i < len(events)-1) {
			counts.Events++
		}
		for _, document := range documents {
			for k, kind := range kinds {
				here := map[string]int64{}
				for _, pointer := range kind.pointers {
					found, _ := follow(document, strings.Split(pointer[1:], "/")...)
					number, _ := found.(json.Number)
					if n, ok := Number([]byte(number)); ok && number != "" {
						name := lastName(pointer)
						if other, twice := here[name]; twice && other != n || len(number) > maxText {
							return counts, false
						}
						here[name] = n
					}
				}
				maps.Copy(numbers[k], here)
			}
		}
	}
	for k, kind := range kinds {
		for _, n := range numbers[k] {
			*kind.sum = max(*kind.sum, 0) + n
		}
	}
	return counts, true
}

// duplicateKeys reports whether an object has a key twice. The text is valid.
func duplicateKeys(text string) bool {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var open []map[string]bool // nil for an array
	key := false               // the next string is a key
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'):
			open, key = append(open, map[string]bool{}), true
			continue
		case json.Delim('['):
			open, key = append(open, nil), false
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		default:
			if key {
				seen, name := open[len(open)-1], token.(string)
				if seen[name] {
					return true
				}
				seen[name], key = true, false
				continue
			}
		}
		key = len(open) > 0 && open[len(open)-1] != nil
	}
}

// compareEvents compares a meter with the reference, and reports whether they could be compared.
func compareEvents(t *testing.T, r *Rules, body []byte, size int) bool {
	want, ok := plainCounts(&r.config, body)
	if !ok {
		return false
	}
	for _, size := range []int{max(len(body), 1), size} {
		if got := measure(r, header("Content-Type", eventStream), body, size); got != want {
			t.Fatalf("%q in pieces of %d: got %+v, want %+v", body, size, got, want)
		}
	}
	return true
}

// TestEventsAgainstJSON: the same for random streams, most of whose events have no counters.
func TestEventsAgainstJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	compared := 0
	for i := range 1_000 {
		name := Names()[i%3]
		if compareEvents(t, preset(t, name, nil), []byte(manyEvents(r, name)), 1+r.IntN(5000)) {
			compared++
		}
	}
	if compared < 600 {
		t.Errorf("only %d streams can be compared", compared)
	}
}

// manyEvents is a random stream of events.
func manyEvents(r *rand.Rand, name string) string {
	format := Presets()[name]
	pointers := slices.Concat(format.Input, format.Output, format.Cached)
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	line := pick("\n", "\n", "\r\n", "\r")
	var b strings.Builder
	for range r.IntN(12) {
		for range r.IntN(2) {
			b.WriteString(pick(": ping", "event: message", "id: 1", "data", "dat: {}", "DATA: {", "retry:") + line)
		}
		long := strings.Repeat("x", r.IntN(9000))
		value := map[string]any{"delta": pick("", "Hel", `lo "usage"`, "\n\n", "é\x01", long)}
		if r.IntN(4) == 0 {
			set(value, pick(pointers...), []any{r.IntN(1000), 1.5, nil, "7", -3, map[string]any{}}[r.IntN(6)])
		}
		text, _ := json.MarshalIndent(value, "", pick("", " "))
		data := string(text)
		if r.IntN(3) == 0 {
			data = strings.ReplaceAll(data, "oken", pick(`o\u006ben`, "oken"))
			data = strings.ReplaceAll(data, "usage", pick(`\u0075sage`, `usag\u0065`, "usage"))
		}
		if r.IntN(8) == 0 {
			data = pick("[DONE]", "", "["+data+"]", " ", "12")
		}
		for _, part := range strings.Split(data, "\n") {
			b.WriteString("data:" + pick("", " ", "  ") + part + line)
		}
		b.WriteString(pick(line, line, line, line+line, line+": x"+line, line, line, line, ""))
	}
	return b.String()
}

// set sets the value that a pointer leads to.
func set(object map[string]any, pointer string, value any) {
	keys := strings.Split(pointer[1:], "/")
	for _, key := range keys[:len(keys)-1] {
		next, ok := object[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[key] = next
		}
		object = next
	}
	object[keys[len(keys)-1]] = value
}

// FuzzEvents: a meter finds what a plain parser finds in whole events.
func FuzzEvents(f *testing.F) {
	names := Names()
	for i, body := range []string{chatStream, responsesStream, messagesStream, geminiStream, manyEvents(
		rand.New(rand.NewPCG(1, 1)), "openai")} {
		f.Add([]byte(body), uint8(i), uint8(3))
	}
	var rules []*Rules
	for _, name := range names {
		rules = append(rules, preset(f, name, nil))
	}
	f.Fuzz(func(t *testing.T, body []byte, which, size uint8) {
		compareEvents(t, rules[int(which)%len(rules)], body, int(size)+1)
	})
}
