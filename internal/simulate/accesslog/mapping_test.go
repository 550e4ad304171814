package accesslog

import (
	"strings"
	"testing"
)

func TestParseMappingMistakes(t *testing.T) {
	for _, test := range []struct {
		text string
		want string
	}{
		{"ts", `"ts": want PART=KEY, such as "time=ts" or "header:X-Api-Key=request.headers.X-Api-Key"`},
		{"tme=ts", `"tme=ts": unknown part "tme" (did you mean "time"?); want time, client,`},
		{"time:x=ts", `unknown part "time:x"`},
		{"header=ts", `"header=ts": invalid header name ""; want one as in "header:X-Api-Key"`},
		{"header:a b=ts", `invalid header name "a b"`},
		{"claim=plan", `"claim=plan": no claim name; want one as in "claim:plan"`},
		{"time=", `"time=": invalid key ""`},
		{"time=a..b", `invalid key ""`},
		{`time="ts"`, `; want letters, digits and punctuation without quotes, commas and backslashes`},
		{`time=a\b`, `invalid key`},
		{"time=a,path=a.b", `"path=a.b": "a" cannot be a value and an object at once`},
		{"path=a.b.c,time=a.b", `"time=a.b": "a.b" cannot be a value and an object at once`},
	} {
		_, err := ParseMapping(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.HasPrefix(err.Error(), "accesslog: mapping: ") {
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		}
	}
}
