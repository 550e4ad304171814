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
		{"tme=ts", `"tme=ts": there is no part "tme" (did you mean "time"?); want time, client,`},
		{"time:x=ts", `there is no part "time:x"`},
		{"header=ts", `"header=ts": "" cannot name a header; want one as in "header:X-Api-Key"`},
		{"header:a b=ts", `"a b" cannot name a header`},
		{"claim=plan", `"claim=plan": a claim has a name; want one as in "claim:plan"`},
		{"time=", `"time=": "" cannot be a key`},
		{"time=a..b", `"" cannot be a key`},
		{`time="ts"`, `cannot be a key; want letters, digits and punctuation without quotes, commas and backslashes`},
		{`time=a\b`, `cannot be a key`},
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
