package httplimit

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/outbound"
)

// listenNow is when the responses of these tests come in: 2027-01-15 08:00:00 UTC.
var listenNow = time.Unix(1_800_000_000, 0)

// toldTests are header fields, one "Name: value" a line, and what they say.
var toldTests = []struct {
	name   string
	status int
	fields string
	want   told
}{
	{"nothing to say", 200, "", told{}},
	{"too many, no more", 429, "", told{outbound.DefaultCooldown, true}},
	{"unavailable, no more", 503, "", told{}},

	{"seconds", 429, "Retry-After: 30", told{30 * time.Second, true}},
	{"seconds, unavailable", 503, "Retry-After: 30", told{30 * time.Second, true}},
	{"seconds, moved", 301, "Retry-After: 30", told{}},
	{"seconds, created", 201, "Retry-After: 30", told{}},
	{"space around", 429, "Retry-After:  30 ", told{30 * time.Second, true}},
	{"a fraction", 429, "Retry-After: 0.25", told{250 * time.Millisecond, true}},
	{"milliseconds", 429, "Retry-After-Ms: 1500", told{1500 * time.Millisecond, true}},
	{"milliseconds, unavailable", 503, "retry-after-ms: 20", told{20 * time.Millisecond, true}},
	{"milliseconds before seconds", 429, "Retry-After: 2\nRetry-After-Ms: 1500", told{1500 * time.Millisecond, true}},
	{"milliseconds that say nothing", 429, "Retry-After: 30\nRetry-After-Ms: 0", told{30 * time.Second, true}},
	{"milliseconds of nothing", 503, "Retry-After-Ms: 0", told{}},
	{"milliseconds in vain", 429, "Retry-After: 2\nRetry-After-Ms: soon", told{2 * time.Second, true}},
	{"at once", 429, "Retry-After: 0", told{outbound.DefaultCooldown, true}},
	{"at once, unavailable", 503, "Retry-After: 0", told{}},

	{"date", 429, "Retry-After: Fri, 15 Jan 2027 08:00:30 GMT", told{30 * time.Second, true}},
	{"date by its own clock", 429, "Date: Fri, 15 Jan 2027 07:00:00 GMT\nRetry-After: Fri, 15 Jan 2027 07:00:30 GMT", told{30 * time.Second, true}},
	{"date in an old form", 503, "Retry-After: Friday, 15-Jan-27 08:01:00 GMT", told{time.Minute, true}},
	{"date in the past", 429, "Retry-After: Fri, 15 Jan 2027 07:59:59 GMT", told{outbound.DefaultCooldown, true}},
	{"date in the past, unavailable", 503, "Retry-After: Fri, 15 Jan 2027 07:59:59 GMT", told{}},
	{"date of another era", 429, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", told{stint.MaxBan, true}},
	{"own date broken", 429, "Date: today\nRetry-After: Fri, 15 Jan 2027 08:00:30 GMT", told{30 * time.Second, true}},

	{"words", 429, "Retry-After: soon", told{outbound.DefaultCooldown, true}},
	{"words, unavailable", 503, "Retry-After: soon", told{}},
	{"negative", 429, "Retry-After: -5", told{outbound.DefaultCooldown, true}},
	{"signed", 503, "Retry-After: +5", told{}},
	{"not finite", 503, "Retry-After: Inf", told{}},
	{"not a number", 503, "Retry-After: NaN", told{}},
	{"exponent", 503, "Retry-After: 1e3", told{}},
	{"hexadecimal", 503, "Retry-After: 0x10", told{}},
	{"dots", 503, "Retry-After: 1.2.3", told{}},
	{"a dot", 503, "Retry-After: .", told{}},
	{"absurd", 429, "Retry-After: 99999999999999999999", told{stint.MaxBan, true}},
	{"more absurd", 429, "Retry-After: " + strings.Repeat("9", 400), told{stint.MaxBan, true}},
	{"absurd milliseconds", 503, "Retry-After-Ms: " + strings.Repeat("9", 400), told{stint.MaxBan, true}},

	{"quota", 200, `RateLimit: "default";r=0;t=30`, told{30 * time.Second, false}},
	{"quota, refused", 429, `RateLimit: "default";r=0;t=30`, told{30 * time.Second, true}},
	{"quota, failed", 500, `RateLimit: "default";r=0;t=30`, told{30 * time.Second, false}},
	{"quota, unavailable", 503, `RateLimit: "default";r=0;t=30`, told{30 * time.Second, false}},
	{"quota, some left", 200, `RateLimit: "default";r=1;t=30`, told{}},
	{"quota, some left but refused", 429, `RateLimit: "default";r=1;t=30`, told{outbound.DefaultCooldown, true}},
	{"quota by token", 200, `RateLimit: default;r=0;t=30`, told{30 * time.Second, false}},
	{"quota with more said", 200, `RateLimit: "default";r=0;t=30;pk=:c3RpbnQ=:`, told{30 * time.Second, false}},
	{"quotas", 200, `RateLimit: "second";r=0;t=1, "minute";r=0;t=40, "day";r=7;t=4000`, told{40 * time.Second, false}},
	{"quotas in two fields", 200, "RateLimit: \"second\";r=0;t=1\nRateLimit: \"minute\";r=0;t=40", told{40 * time.Second, false}},
	{"quota without a reset", 200, `RateLimit: "default";r=0`, told{}},
	{"quota without what remains", 200, `RateLimit: "default";t=30`, told{}},
	{"quota, negative", 200, `RateLimit: "default";r=0;t=-30`, told{}},
	{"quota, of no number", 200, `RateLimit: "default";r=0;t="30"`, told{}},
	{"quota, absurd", 200, `RateLimit: "default";r=0;t=999999999999999`, told{stint.MaxBan, false}},
	{"quota, too long for a number", 200, `RateLimit: "default";r=0;t=9999999999999999`, told{}},
	{"quota, inner list", 200, `RateLimit: ("default" "other");r=0;t=30`, told{}},
	{"quota, broken", 200, `RateLimit: "default;r=0;t=30`, told{}},
	{"policy alone", 200, `RateLimit-Policy: "default";q=100;w=60`, told{}},
	{"refusal before quota", 429, "Retry-After: 2\nRateLimit: \"default\";r=0;t=30", told{2 * time.Second, true}},

	{"dictionary", 200, "RateLimit: limit=100, remaining=0, reset=30", told{30 * time.Second, false}},
	{"dictionary, some left", 200, "RateLimit: limit=100, remaining=1, reset=30", told{}},
	{"dictionary, half", 200, "RateLimit: limit=100, remaining=0", told{}},
	{"dictionary, inner list", 200, "RateLimit: remaining=0, reset=(30)", told{}},

	{"apart", 200, "RateLimit-Remaining: 0\nRateLimit-Reset: 30", told{30 * time.Second, false}},
	{"apart, some left", 200, "RateLimit-Remaining: 1\nRateLimit-Reset: 30", told{}},
	{"apart, no reset", 200, "RateLimit-Remaining: 0", told{}},
	{"apart, reset alone", 200, "RateLimit-Reset: 30", told{}},
	{"apart, unlimited", 200, "RateLimit-Remaining: -1\nRateLimit-Reset: 30", told{}},

	{"older", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30", told{30 * time.Second, false}},
	{"older, hyphenated", 200, "X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 30", told{30 * time.Second, false}},
	{"older, forbidden", 403, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060", told{time.Minute, false}},
	{"older, Unix time", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060", told{time.Minute, false}},
	{"older, Unix time with a fraction", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060.5", told{60500 * time.Millisecond, false}},
	{"older, Unix time by its own clock", 200, "Date: Fri, 15 Jan 2027 07:00:00 GMT\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1799996460", told{time.Minute, false}},
	{"older, Unix milliseconds", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000001500", told{1500 * time.Millisecond, false}},
	{"older, Unix time in the past", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1700000000", told{}},
	{"older, Unix microseconds", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000001500000", told{stint.MaxBan, false}},
	{"older, absurd", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + strings.Repeat("9", 400), told{stint.MaxBan, false}},
	{"older, words", 200, "X-RateLimit-Remaining: none\nX-RateLimit-Reset: tomorrow", told{}},
	{"older, no reset", 200, "X-RateLimit-Remaining: 0", told{}},
	{"older, no reset but refused", 429, "X-RateLimit-Remaining: 0", told{outbound.DefaultCooldown, true}},

	{"cached", 200, "Age: 12\nRateLimit: \"default\";r=0;t=30", told{18 * time.Second, false}},
	{"cached for longer", 200, "Age: 3600\nRateLimit: \"default\";r=0;t=30", told{}},
	{"cached, apart", 200, "Age: 12\nRateLimit-Remaining: 0\nRateLimit-Reset: 30", told{18 * time.Second, false}},
	{"cached, Unix time", 200, "Age: 12\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060", told{time.Minute, false}},
	{"cached, Unix time by its own clock", 200, "Age: 12\nDate: Fri, 15 Jan 2027 07:00:00 GMT\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1799996460", told{48 * time.Second, false}},
	{"cached, refused", 429, "Age: 12\nRetry-After: 30", told{18 * time.Second, true}},
	{"cached for longer, refused", 429, "Age: 30\nRetry-After: 30", told{outbound.DefaultCooldown, true}},
	{"cached, date", 503, "Age: 12\nDate: Fri, 15 Jan 2027 07:00:00 GMT\nRetry-After: Fri, 15 Jan 2027 07:00:30 GMT", told{18 * time.Second, true}},
	{"cached, in words", 200, "Age: old\nRateLimit: \"default\";r=0;t=30", told{30 * time.Second, false}},
	{"cached, negative", 200, "Age: -30\nRateLimit: \"default\";r=0;t=30", told{30 * time.Second, false}},
	{"cached for ever", 200, "Age: " + strings.Repeat("9", 400) + "\nRateLimit: \"default\";r=0;t=30", told{}},
	{"two forms", 200, "RateLimit: \"default\";r=0;t=30\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 45", told{45 * time.Second, false}},
}

// responseWith returns a response with header fields, one a line.
func responseWith(status int, fields string) *http.Response {
	h := http.Header{}
	for line := range strings.Lines(fields) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		h.Add(name, strings.TrimPrefix(value, " "))
	}
	return &http.Response{StatusCode: status, Header: h}
}

func TestTold(t *testing.T) {
	for _, test := range toldTests {
		if got := listen(responseWith(test.status, test.fields), listenNow); got != test.want {
			t.Errorf("%s: %d with %q: got %+v, want %+v", test.name, test.status, test.fields, got, test.want)
		}
	}
}

// Whatever a server sends, a pause is within bounds, and only refusals are repeated.
func FuzzTold(f *testing.F) {
	for _, test := range toldTests {
		f.Add(test.status, test.fields)
	}
	f.Fuzz(func(t *testing.T, status int, fields string) {
		got := listen(responseWith(status, fields), listenNow)
		if got.pause < 0 || got.pause > stint.MaxBan {
			t.Errorf("a pause of %v", got.pause)
		}
		if got.again && (status != 429 && status != 503 || got.pause == 0) {
			t.Errorf("%d is to be repeated after %v", status, got.pause)
		}
	})
}
