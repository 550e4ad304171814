package tokens

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
)

func TestEstimate(t *testing.T) {
	for _, test := range []struct {
		name, preset, path, body string
		length                   int64
		want                     Counts
	}{
		{"one bound", "openai", "", `{"model":"m","max_tokens":100}`, 30, Counts{8, 100, 0, -1, "m"}},
		{"the largest of two", "openai", "", `{"max_tokens":1,"max_completion_tokens":10000}`, 46, Counts{12, 10000, 0, -1, ""}},
		{"the largest of a repeated one", "openai", "", `{"max_tokens":900,"max_tokens":1}`, 33, Counts{9, 900, 0, -1, ""}},
		{"several answers", "openai", "", `{"max_tokens":10,"n":3}`, 23, Counts{6, 30, 0, -1, ""}},
		{"several answers without a bound", "openai", "", `{"n":3}`, 7, Counts{2, 3000, 0, -1, ""}},
		{"none", "openai", "", `{"messages":[{"max_tokens":7}]}`, 31, Counts{8, 1000, 0, -1, ""}},
		{"not a number", "openai", "", `{"max_tokens":"7","n":-2}`, 25, Counts{7, 1000, 0, -1, ""}},
		{"a bound that some servers take for none", "openai", "", `{"max_tokens":0}`, 16, Counts{4, 1000, 0, -1, ""}},
		{"Azure", "openai", "/openai/deployments/gpt-4o/chat/completions", `{"max_tokens":9}`, 16, Counts{4, 9, 0, -1, "gpt-4o"}},
		{"a model in body and path", "openai", "/openai/deployments/a/chat", `{"model":"b"}`, 13, Counts{4, 1000, 0, -1, "b"}},
		{"two models and a path", "openai", "/openai/deployments/a/chat", `{"model":"b","model":"c"}`, 25, Counts{7, 1000, 0, -1, ""}},
		{"in capitals, as servers in Go read it", "openai", "", `{"max_tokens":1,"Max_To\u212aens":900,"MODEL":"m"}`, 46,
			Counts{13, 900, 0, -1, "m"}},
		{"two spellings of a model", "openai", "", `{"model":"a","Model":"b"}`, 25, Counts{7, 1000, 0, -1, ""}},
		{"a fraction", "openai", "", `{"max_tokens":7.5,"n":1.2}`, 26, Counts{7, 16, 0, -1, ""}},
		{"no number of JSON", "openai", "", `{"max_tokens":0x10}`, 19, Counts{5, 1000, 0, -1, ""}},
		{"an array", "openai", "", `[{"max_tokens":7}]`, 18, Counts{5, 7, 0, -1, ""}},
		{"a bound in an array", "openai", "", `{"max_tokens":[9000]}`, 21, Counts{6, 1000, 0, -1, ""}},
		{"no UTF-8", "openai", "", "{\"model\":\"\xff\",\"max_tokens\":7}", 30, Counts{8, 7, 0, -1, "\ufffd"}},
		{"a byte order mark", "openai", "", "\ufeff{\"max_tokens\":7}", 19, Counts{0, 1000, 0, -1, ""}},
		{"nested", "openai", "", `{"x":` + strings.Repeat("[", 50_000) + `,"max_tokens":7`, 60_000, Counts{15_000, 1000, 0, -1, ""}},
		{"huge", "openai", "", `{"max_tokens":1e300,"n":9e300}`, 30, Counts{8, stint.MaxUnits, 0, -1, ""}},
		{"a longer body than was read", "openai", "", `{"model":"m","messages":[{"content":"`, 400_000, Counts{100_000, 1000, 0, -1, "m"}},
		{"of unknown length", "openai", "", `{"max_tokens":5`, -1, Counts{4, 1000, 0, -1, ""}},
		{"no JSON", "openai", "", "--boundary", 1 << 20, Counts{0, 1000, 0, -1, ""}},
		{"no body", "openai", "", "", 0, Counts{0, 1000, 0, -1, ""}},
		{"two models", "openai", "", `{"model":"a","model":"b"}`, 25, Counts{7, 1000, 0, -1, ""}},
		{"an escaped model", "openai", "", `{"model":"\u0061"}`, 18, Counts{5, 1000, 0, -1, "a"}},
		{"messages", "anthropic", "", `{"model":"claude","max_tokens":20}`, 34, Counts{9, 20, 0, -1, "claude"}},
		{"gemini", "gemini", "/v1beta/models/gemini-2.0-flash:streamGenerateContent", `{"generationConfig":{"maxOutputTokens":8,"candidateCount":2}}`, 61,
			Counts{16, 16, 0, -1, "gemini-2.0-flash"}},
	} {
		r := preset(t, test.preset, nil)
		if got := r.Estimate(test.path, []byte(test.body), test.length); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestUnits(t *testing.T) {
	r := preset(t, "openai", func(c *Config) {
		c.Weights = Rates{Input: 1, Output: 4, Cached: 0}
		c.Prices = map[string]Rates{"m": {Input: 2_500_000, Output: 10_000_000, Cached: 1_250_000}}
	})
	c := Counts{Input: 100, Output: 7, Cached: 40, Model: "m"}
	for name, want := range map[string]int64{
		"input_tokens": 100, "output_tokens": 7, "cached_tokens": 40, "cost": 60 + 28, "tokens": 60 + 28,
		"price": 270, // 60·2.5 + 7·10 + 40·1.25
	} {
		if got := r.Units(c, name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
	if got := r.Units(Counts{Input: 1, Model: "m"}, PriceName); got != 3 {
		t.Errorf("2.5 units are rounded to %d, want 3", got)
	}
	if got := r.Units(Counts{Input: 1, Output: 1, Cached: 9, Model: "m"}, PriceName); got != 12 {
		t.Errorf("more cached than input: got %d, want 12", got) // 1.25 + 10
	}
	for _, model := range []string{"", "other", "default"} {
		c.Model = model
		if got := r.Units(c, PriceName); got != stint.MaxUnits {
			t.Errorf("the unknown model %q costs %d", model, got)
		}
	}
	r = preset(t, "openai", func(c *Config) {
		c.Prices = map[string]Rates{AnyModel: {Input: stint.MaxUnits, Output: stint.MaxUnits}}
	})
	if got := r.Units(Counts{Input: stint.MaxUnits, Output: stint.MaxUnits, Model: "x"},
		PriceName); got != stint.MaxUnits {
		t.Errorf("got %d, want no overflow", got)
	}
}

func TestInject(t *testing.T) {
	r := preset(t, "openai", func(c *Config) { c.Inject = true })
	for _, test := range []struct{ body, want string }{
		{`{"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{` { "stream" : true } `, ` {"stream_options":{"include_usage":true}, "stream" : true } `},
		{`{"stream":true,"stream_options":{}}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{`{"stream":true,"stream_options":{ "x":1}}`, `{"stream":true,"stream_options":{"include_usage":true, "x":1}}`},
		{`{"stream":true,"stream_options":null}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{`{"stream_options":{"include_usage":false},"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{`{"stream_options":{"include_usage":null},"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{`{"stream_options":{"include_usage":true},"stream":true}`, ""},
		{`{"stream":false}`, ""}, {`{}`, ""}, {``, ""}, {`[{"stream":true}]x`, ""}, {`{"stream":"true"}`, ""},
		{`{"stream":true,"stream_options":7}`, ""},
		{`{"stream":true,"input":"hello"}`, ""},
	} {
		got, changed := r.Inject([]byte(test.body))
		want := test.want
		if want == "" {
			want = test.body
		}
		if string(got) != want || changed != (test.want != "") {
			t.Errorf("%s: got %s, %v; want %s", test.body, got, changed, want)
		}
		if test.want == "" {
			continue
		}
		var before, after map[string]any
		if err := json.Unmarshal(got, &after); err != nil {
			t.Errorf("%s: %v", got, err)
		}
		if err := json.Unmarshal([]byte(test.body), &before); err != nil {
			t.Fatal(err)
		}
		delete(before, "stream_options")
		if options, _ := after["stream_options"].(map[string]any); options["include_usage"] != true {
			t.Errorf("%s has no usage", got)
		}
		delete(after, "stream_options")
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s became %s", test.body, got)
		}
	}
	if got, changed := preset(t, "openai", nil).Inject([]byte(`{"stream":true}`)); changed ||
		!strings.HasPrefix(string(got), `{"stream"`) {
		t.Error("it is changed although that is off")
	}
}
