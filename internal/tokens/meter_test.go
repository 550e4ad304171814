package tokens

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

func preset(t testing.TB, name string, change func(*Config)) *Rules {
	t.Helper()
	c := Config{Format: Presets()[name]}
	if change != nil {
		change(&c)
	}
	r := testkit.Must(New(c))(t)
	return r
}

// measure passes a response through a meter in pieces of a size.
func measure(r *Rules, h http.Header, body []byte, size int) Counts {
	m := r.Meter()
	m.Begin(h)
	for piece := range slices.Chunk(body, size) {
		_, _ = m.Write(piece)
	}
	m.Trailer(h)
	return m.End()
}

func header(fields ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	return h
}

const eventStream = "text/event-stream; charset=utf-8"

// Responses as the APIs send them, shortened.
const (
	chat       = `{"id":"c","model":"gpt-4o-2024-08-06","choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":7}}"}}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":8}}}`
	chatStream = `data: {"choices":[{"delta":{"content":"Hel"}}],"usage":null}

data: {"choices":[{"delta":{"content":"lo"}}],"usage":null}

data: {"choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":8}}}

data: [DONE]

`
	responsesStream = `event: response.created
data: {"type":"response.created","response":{"usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"Hi"}

event: response.completed
data: {"type":"response.completed","response":{"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":4},"output_tokens":87}}}

`
	messagesStream = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":25,"cache_creation_input_tokens":3,"cache_read_input_tokens":100,"output_tokens":1}}}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hello"}}

: keep-alive

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

`
	geminiStream = `data: {"candidates":[{}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2}}

data: {"candidates":[{}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":9,"thoughtsTokenCount":30,"cachedContentTokenCount":1}}

`
)

func TestMeter(t *testing.T) {
	head, _, _ := strings.Cut(messagesStream, ": keep-alive")
	for _, test := range []struct {
		name, preset, media, body string
		want                      Counts
	}{
		{"a body", "openai", "application/json", chat, Counts{19, 10, 8, -1, ""}},
		{"a stream", "openai", eventStream, chatStream, Counts{19, 10, 8, 3, ""}},
		{"responses", "openai", eventStream, responsesStream, Counts{36, 87, 4, 3, ""}},
		{"both names of a number", "openai", "application/json",
			`{"usage":{"prompt_tokens":5,"input_tokens":5,"completion_tokens":7,"output_tokens":7}}`, Counts{5, 7, -1, -1, ""}},
		{"embeddings", "openai", "application/json", `{"data":[{"embedding":[0.1,0.2]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`,
			Counts{8, -1, -1, -1, ""}},
		{"in the first event and the last", "anthropic", eventStream, messagesStream, Counts{128, 15, 100, 4, ""}},
		{"broken off", "anthropic", eventStream, head, Counts{128, -1, 100, 2, ""}},
		{"a message", "anthropic", "application/json", `{"content":[{"type":"tool_use","input":{"usage":{"output_tokens":0}}}],"usage":{"input_tokens":2095,"output_tokens":503}}`,
			Counts{2095, 503, -1, -1, ""}},
		{"in every event", "gemini", eventStream, geminiStream, Counts{4, 39, 1, 2, ""}},
		{"an array", "gemini", "application/json", `[{"usageMetadata":{"promptTokenCount":4}},` + "\n" + `{"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":9}}]`,
			Counts{4, 9, -1, -1, ""}},
		{"nothing", "openai", "application/json", `{"choices":[]}`, Counts{-1, -1, -1, -1, ""}},
		{"no JSON", "openai", "text/html", "<html>", Counts{-1, -1, -1, -1, ""}},
		{"broken JSON between", "openai", eventStream, "data: {\"usage\":{\"prompt_tokens\":1,\n\ndata: }{\n\n" + chatStream, Counts{19, 10, 8, 4, ""}},
		{"null", "openai", "application/json", `{"usage":null}`, Counts{-1, -1, -1, -1, ""}},
		{"in an array", "openai", "application/json", `{"usage":[{"prompt_tokens":5,"completion_tokens":6}]}`, Counts{-1, -1, -1, -1, ""}},
		{"texts", "openai", "application/json", `{"usage":{"prompt_tokens":"5","completion_tokens":true}}`, Counts{-1, -1, -1, -1, ""}},
		{"fractions", "openai", "application/json", `{"usage":{"prompt_tokens":1.5,"completion_tokens":2e1}}`, Counts{2, 20, -1, -1, ""}},
		{"the last of a repeated one", "openai", "application/json", `{"usage":{"prompt_tokens":1,"prompt_tokens":2},"usage":{"completion_tokens":3}}`,
			Counts{2, 3, -1, -1, ""}},
		{"no UTF-8", "openai", "application/json", "{\"\xff\":\"\xfe\",\"usage\":{\"prompt_tokens\":1}}", Counts{1, -1, -1, -1, ""}},
		{"another case", "openai", "application/json", `{"Usage":{"prompt_tokens":1}}`, Counts{-1, -1, -1, -1, ""}},
		{"negative", "openai", "application/json", `{"usage":{"prompt_tokens":-5,"completion_tokens":1e400}}`, Counts{-1, 1 << 53, -1, -1, ""}},
		{"data in two lines", "openai", eventStream, "data: {\"usage\":\ndata:{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n", Counts{3, 4, -1, 1, ""}},
		{"no end", "openai", eventStream, "data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}", Counts{3, 4, -1, 0, ""}},
	} {
		rules := preset(t, test.preset, nil)
		for _, end := range []string{"\n", "\r\n", "\r"} {
			body := []byte(strings.ReplaceAll(test.body, "\n", end))
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write(body)
			w.Close()
			for _, size := range []int{1, 2, 3, 5, 100, 1 << 20} {
				h := header("Content-Type", test.media)
				if got := measure(rules, h, body, size); got != test.want {
					t.Errorf("%s, lines end with %q, by %d: got %+v, want %+v", test.name, end, size, got, test.want)
				}
				h.Set("Content-Encoding", "gzip")
				if got := measure(rules, h, packed.Bytes(), size); got != test.want {
					t.Errorf("%s, gzip, lines end with %q, by %d: got %+v, want %+v", test.name, end, size, got, test.want)
				}
			}
		}
	}
}

func TestMeterFields(t *testing.T) {
	rules := preset(t, "", func(c *Config) {
		c.Input, c.Output = []string{"X-Prompt-Tokens", "/in"}, []string{"X-Output-Tokens"}
	})
	m := rules.Meter()
	h := header("X-Prompt-Tokens", "7")
	m.Begin(h)
	h.Set(http.TrailerPrefix+"X-Output-Tokens", " 9")
	m.Trailer(h)
	if got, want := m.End(), (Counts{7, 9, -1, -1, ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, odd := range []string{"inf", "0x10", "1_000", "+7", "-7", "seven", "7 tokens", ""} {
		m := rules.Meter()
		m.Begin(header("X-Prompt-Tokens", odd))
		if got := m.End(); got.Input != -1 {
			t.Errorf("%q: got %+v", odd, got)
		}
	}
	if _, err := m.Write([]byte(`{"in":5}`)); err != nil || m.End().Input != 7 {
		t.Error("something is read after the end")
	}
}

// The usage of an unreadable response is unknown.
func TestMeterUnreadable(t *testing.T) {
	rules := preset(t, "openai", nil)
	for name, h := range map[string]http.Header{
		"br":      header("Content-Encoding", "br"),
		"no gzip": header("Content-Encoding", "gzip"),
	} {
		if got := measure(rules, h, []byte(chat), 10); got.Found() {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	m := rules.Meter()
	if got := m.End(); got.Found() {
		t.Errorf("without a response: got %+v", got)
	}
}

// endless are texts without an end, and what they are like.
var endless = map[string]struct{ media, head, piece string }{
	"an event of many megabytes": {eventStream, `data: {"choices":[{"delta":"`, strings.Repeat("x", 1000)},
	"a line that does not end":   {eventStream, "", strings.Repeat("event", 200)},
	"an endless name of a field": {eventStream, "", "data"},
	"carriage returns":           {eventStream, "", strings.Repeat("\r", 1000)},
	"nested":                     {"application/json", "", strings.Repeat(`{"usage":[`, 100)},
	"an endless number":          {"application/json", `{"usage":{"prompt_tokens":`, strings.Repeat("1", 1000)},
	"an endless key":             {"application/json", `{"usage":{"`, strings.Repeat(`\u0061`, 100)},
	"backslashes":                {"application/json", `{"x":"`, strings.Repeat(`\\`, 500)},
	"many members":               {"application/json", `{"usage":{`, strings.Repeat(`"prompt_tokens":1,`, 50)},
}

func TestMeterIsBounded(t *testing.T) {
	const size = 2 << 20
	rules := preset(t, "openai", nil)
	for name, test := range endless {
		m := rules.Meter()
		m.Begin(header("Content-Type", test.media))
		_, _ = m.Write([]byte(test.head))
		piece := bytes.Repeat([]byte(test.piece), 1+32<<10/len(test.piece))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for n := 0; n < size; n += len(piece) {
			_, _ = m.Write(piece)
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<10 {
			t.Errorf("%s: %d bytes were allocated for %d", name, grown, size)
		}
		m.End()
	}
}

// A compressed response cannot make the meter work without an end.
func TestMeterInflatesSoMuch(t *testing.T) {
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range maxInflated>>20 + 1 {
		_, _ = w.Write(spaces)
	}
	_, _ = w.Write([]byte(chat))
	w.Close()
	h := header("Content-Type", "application/json", "Content-Encoding", "gzip")
	if got := measure(preset(t, "openai", nil), h, packed.Bytes(), 32<<10); got.Found() {
		t.Errorf("got %+v from beyond the bound", got)
	}
}

// mutate changes some bytes of a text.
func mutate(r *rand.Rand, text []byte) []byte {
	text = slices.Clone(text)
	for range 1 + r.IntN(5) {
		switch i := r.IntN(len(text)); r.IntN(4) {
		case 0:
			text[i] = byte(r.IntN(256))
		case 1:
			text = slices.Delete(text, i, min(i+1+r.IntN(20), len(text)))
		case 2:
			text = slices.Insert(text, i, []byte(`"{[\}]":,` + "\r\n\x00")[r.IntN(12)])
		default:
			j := r.IntN(len(text))
			text = slices.Concat(text[:i], text[min(i, j):max(i, j)], text[i:])
		}
		if len(text) == 0 {
			return []byte("x")
		}
	}
	return text
}

// 10,000 broken bodies in both directions: no crash, and pieces make no difference.
func TestBrokenBodies(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	bodies := []string{chat, chatStream, responsesStream, messagesStream, geminiStream}
	requests := []string{
		`{"model":"m","stream":true,"max_tokens":10,"n":2,"messages":[]}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":false}}`,
		`{"generationConfig":{"maxOutputTokens":10}}`,
	}
	inject := func(c *Config) { c.Inject = true }
	rules := []*Rules{preset(t, "openai", inject), preset(t, "anthropic", nil), preset(t, "gemini", nil)}
	for i := range 10_000 {
		rule := rules[i%len(rules)]
		body := mutate(r, []byte(bodies[r.IntN(len(bodies))]))
		h := header("Content-Type", []string{"application/json", eventStream}[r.IntN(2)])
		if r.IntN(4) == 0 {
			h.Set("Content-Encoding", "gzip")
		}
		whole, pieces := measure(rule, h, body, len(body)), measure(rule, h, body, 1+r.IntN(9))
		if whole != pieces {
			t.Fatalf("%q: got %+v, in pieces %+v", body, whole, pieces)
		}
		request := mutate(r, []byte(requests[r.IntN(len(requests))]))
		if c := rule.Estimate("/v1/models/m:generate", request, int64(len(request))); c.Output < 0 || c.Input < 0 {
			t.Fatalf("%q: %+v", request, c)
		}
		if changed, ok := rule.Inject(request); !ok && !bytes.Equal(changed, request) {
			t.Fatalf("%q became %q", request, changed)
		}
	}
}

func TestSettled(t *testing.T) {
	estimate := Counts{Input: 50, Output: 1000, Model: "m"}
	for _, test := range []struct {
		name         string
		found        Counts
		failed       bool
		want, events Counts
	}{
		{"all is said", Counts{10, 20, 5, 3, ""}, false, Counts{10, 20, 5, 3, "m"}, Counts{10, 20, 5, 3, "m"}},
		{"nothing is said in a stream", Counts{-1, -1, -1, 7, ""}, false, Counts{50, 1000, 0, 7, "m"}, Counts{50, 7, 0, 7, "m"}},
		{"nothing is said", Counts{-1, -1, -1, -1, ""}, false, Counts{50, 1000, 0, -1, "m"}, Counts{50, 1000, 0, -1, "m"}},
		{"broken off", Counts{10, -1, -1, 2, ""}, false, Counts{10, 1000, 0, 2, "m"}, Counts{10, 2, 0, 2, "m"}},
		{"embeddings", Counts{10, -1, -1, -1, ""}, false, Counts{10, 0, 0, -1, "m"}, Counts{10, 0, 0, -1, "m"}},
		{"an error", Counts{-1, -1, -1, -1, ""}, true, Counts{0, 0, 0, -1, "m"}, Counts{0, 0, 0, -1, "m"}},
		{"an error that used something", Counts{10, 3, -1, -1, ""}, true, Counts{10, 3, 0, -1, "m"}, Counts{10, 3, 0, -1, "m"}},
	} {
		for _, events := range []bool{false, true} {
			want := test.want
			if events {
				want = test.events
			}
			r := preset(t, "openai", func(c *Config) { c.CountEvents = events })
			if got := r.Settled(test.found, estimate, test.failed); got != want {
				t.Errorf("%s, events %v: got %+v, want %+v", test.name, events, got, want)
			}
		}
	}
}

// The usage so far is never more than the response reports at the end.
func TestSoFar(t *testing.T) {
	events := strings.Repeat("data: {\"choices\":[]}\n\n", 20)
	for _, test := range []struct {
		name, preset, encoding, body string
		want                         Counts
	}{
		{"nothing", "openai", "", "", Counts{Events: 0}},
		{"a few events", "openai", "", events[:len(events)/2], Counts{Events: 10}},
		{"many events", "openai", "", events, Counts{Output: 4, Events: 20}},
		{"the first event", "anthropic", "", messagesStream[:250], Counts{Input: 128, Cached: 100, Events: 1}},
		{"said", "gemini", "", geminiStream, Counts{4, 39, 1, 2, ""}},
		{"compressed", "openai", "gzip", events, Counts{Events: -1}},
	} {
		m := preset(t, test.preset, nil).Meter()
		m.Begin(header("Content-Type", eventStream, "Content-Encoding", test.encoding))
		_, _ = m.Write([]byte(test.body))
		if got := m.SoFar(); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
		m.End()
	}
}
