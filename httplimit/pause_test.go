package httplimit

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/middleware"
)

// readAt is when the responses of these tests come in: 2027-01-15 08:00:00 UTC.
var readAt = time.Unix(1_800_000_000, 0)

// pauseTests are header fields, one "Name: value" a line, and what they say.
var pauseTests = []struct {
	name   string
	status int
	fields string
	want   pause
}{
	{"nothing to say", 200, "", pause{}},
	{"too many, no more", 429, "", pause{middleware.DefaultRetryAfter, true}},
	{"unavailable, no more", 503, "", pause{}},

	{"seconds", 429, "Retry-After: 30", pause{30 * time.Second, true}},
	{"seconds, unavailable", 503, "Retry-After: 30", pause{30 * time.Second, true}},
	{"seconds, moved", 301, "Retry-After: 30", pause{}},
	{"seconds, created", 201, "Retry-After: 30", pause{}},
	{"space around", 429, "Retry-After:  30 ", pause{30 * time.Second, true}},
	{"a fraction", 429, "Retry-After: 0.25", pause{250 * time.Millisecond, true}},
	{"milliseconds", 429, "Retry-After-Ms: 1500", pause{1500 * time.Millisecond, true}},
	{"milliseconds, unavailable", 503, "retry-after-ms: 20", pause{20 * time.Millisecond, true}},
	{"milliseconds before seconds", 429, "Retry-After: 2\nRetry-After-Ms: 1500", pause{1500 * time.Millisecond, true}},
	{"milliseconds that say nothing", 429, "Retry-After: 30\nRetry-After-Ms: 0", pause{30 * time.Second, true}},
	{"milliseconds of nothing", 503, "Retry-After-Ms: 0", pause{}},
	{"milliseconds in vain", 429, "Retry-After: 2\nRetry-After-Ms: soon", pause{2 * time.Second, true}},
	{"at once", 429, "Retry-After: 0", pause{middleware.DefaultRetryAfter, true}},
	{"at once, unavailable", 503, "Retry-After: 0", pause{}},

	{"date", 429, "Retry-After: Fri, 15 Jan 2027 08:00:30 GMT", pause{30 * time.Second, true}},
	{"date by its own clock", 429, "Date: Fri, 15 Jan 2027 07:00:00 GMT\nRetry-After: Fri, 15 Jan 2027 07:00:30 GMT", pause{30 * time.Second, true}},
	{"date in an old form", 503, "Retry-After: Friday, 15-Jan-27 08:01:00 GMT", pause{time.Minute, true}},
	{"date in the past", 429, "Retry-After: Fri, 15 Jan 2027 07:59:59 GMT", pause{middleware.DefaultRetryAfter, true}},
	{"date in the past, unavailable", 503, "Retry-After: Fri, 15 Jan 2027 07:59:59 GMT", pause{}},
	{"date of another era", 429, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", pause{stint.MaxWindow, true}},
	{"own date broken", 429, "Date: today\nRetry-After: Fri, 15 Jan 2027 08:00:30 GMT", pause{30 * time.Second, true}},

	{"words", 429, "Retry-After: soon", pause{middleware.DefaultRetryAfter, true}},
	{"words, unavailable", 503, "Retry-After: soon", pause{}},
	{"negative", 429, "Retry-After: -5", pause{middleware.DefaultRetryAfter, true}},
	{"signed", 503, "Retry-After: +5", pause{}},
	{"not finite", 503, "Retry-After: Inf", pause{}},
	{"not a number", 503, "Retry-After: NaN", pause{}},
	{"exponent", 503, "Retry-After: 1e3", pause{}},
	{"hexadecimal", 503, "Retry-After: 0x10", pause{}},
	{"dots", 503, "Retry-After: 1.2.3", pause{}},
	{"a dot", 503, "Retry-After: .", pause{}},
	{"absurd", 429, "Retry-After: 99999999999999999999", pause{stint.MaxWindow, true}},
	{"more absurd", 429, "Retry-After: " + strings.Repeat("9", 400), pause{stint.MaxWindow, true}},
	{"absurd milliseconds", 503, "Retry-After-Ms: " + strings.Repeat("9", 400), pause{stint.MaxWindow, true}},

	{"quota", 200, `RateLimit: "default";r=0;t=30`, pause{30 * time.Second, false}},
	{"quota, refused", 429, `RateLimit: "default";r=0;t=30`, pause{30 * time.Second, true}},
	{"quota, failed", 500, `RateLimit: "default";r=0;t=30`, pause{30 * time.Second, false}},
	{"quota, unavailable", 503, `RateLimit: "default";r=0;t=30`, pause{30 * time.Second, false}},
	{"quota, some left", 200, `RateLimit: "default";r=1;t=30`, pause{}},
	{"quota, some left but refused", 429, `RateLimit: "default";r=1;t=30`, pause{middleware.DefaultRetryAfter, true}},
	{"quota by token", 200, `RateLimit: default;r=0;t=30`, pause{30 * time.Second, false}},
	{"quota with more said", 200, `RateLimit: "default";r=0;t=30;pk=:c3RpbnQ=:`, pause{30 * time.Second, false}},
	{"quotas", 200, `RateLimit: "second";r=0;t=1, "minute";r=0;t=40, "day";r=7;t=4000`, pause{40 * time.Second, false}},
	{"quotas in two fields", 200, "RateLimit: \"second\";r=0;t=1\nRateLimit: \"minute\";r=0;t=40", pause{40 * time.Second, false}},
	{"quota without a reset", 200, `RateLimit: "default";r=0`, pause{}},
	{"quota without what remains", 200, `RateLimit: "default";t=30`, pause{}},
	{"quota, negative", 200, `RateLimit: "default";r=0;t=-30`, pause{}},
	{"quota, of no number", 200, `RateLimit: "default";r=0;t="30"`, pause{}},
	{"quota, absurd", 200, `RateLimit: "default";r=0;t=999999999999999`, pause{stint.MaxWindow, false}},
	{"quota, too long for a number", 200, `RateLimit: "default";r=0;t=9999999999999999`, pause{}},
	{"quota, inner list", 200, `RateLimit: ("default" "other");r=0;t=30`, pause{}},
	{"quota, broken", 200, `RateLimit: "default;r=0;t=30`, pause{}},
	{"policy alone", 200, `RateLimit-Policy: "default";q=100;w=60`, pause{}},
	{"refusal before quota", 429, "Retry-After: 2\nRateLimit: \"default\";r=0;t=30", pause{2 * time.Second, true}},

	{"dictionary", 200, "RateLimit: limit=100, remaining=0, reset=30", pause{30 * time.Second, false}},
	{"dictionary, some left", 200, "RateLimit: limit=100, remaining=1, reset=30", pause{}},
	{"dictionary, half", 200, "RateLimit: limit=100, remaining=0", pause{}},
	{"dictionary, inner list", 200, "RateLimit: remaining=0, reset=(30)", pause{}},

	{"apart", 200, "RateLimit-Remaining: 0\nRateLimit-Reset: 30", pause{30 * time.Second, false}},
	{"apart, some left", 200, "RateLimit-Remaining: 1\nRateLimit-Reset: 30", pause{}},
	{"apart, no reset", 200, "RateLimit-Remaining: 0", pause{}},
	{"apart, reset alone", 200, "RateLimit-Reset: 30", pause{}},
	{"apart, unlimited", 200, "RateLimit-Remaining: -1\nRateLimit-Reset: 30", pause{}},

	{"tokens of OpenAI", 200, "x-ratelimit-remaining-requests: 59\nx-ratelimit-reset-requests: 1s\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 6m0s", pause{6 * time.Minute, false}},
	{"tokens of OpenAI, milliseconds", 200, "x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 120ms", pause{120 * time.Millisecond, false}},
	{"tokens of OpenAI, some left", 200, "x-ratelimit-remaining-tokens: 10\nx-ratelimit-reset-tokens: 6m0s", pause{}},
	{"requests of OpenAI", 429, "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 20", pause{20 * time.Second, true}},
	{"tokens of Anthropic", 200, "anthropic-ratelimit-output-tokens-remaining: 0\nanthropic-ratelimit-output-tokens-reset: 2027-01-15T08:00:30Z", pause{30 * time.Second, false}},
	{"tokens of Anthropic, Retry-After", 429, "retry-after: 5\nanthropic-ratelimit-input-tokens-remaining: 0\nanthropic-ratelimit-input-tokens-reset: 2027-01-15T08:00:30Z", pause{5 * time.Second, true}},
	{"tokens of Anthropic, broken", 200, "anthropic-ratelimit-tokens-remaining: 0\nanthropic-ratelimit-tokens-reset: soon", pause{}},
	{"older", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30", pause{30 * time.Second, false}},
	{"older, hyphenated", 200, "X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 30", pause{30 * time.Second, false}},
	{"older, forbidden", 403, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060", pause{time.Minute, false}},
	{"older, Unix time", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060", pause{time.Minute, false}},
	{"older, Unix time with a fraction", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060.5", pause{60500 * time.Millisecond, false}},
	{"older, Unix time by its own clock", 200, "Date: Fri, 15 Jan 2027 07:00:00 GMT\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1799996460", pause{time.Minute, false}},
	{"older, Unix milliseconds", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000001500", pause{1500 * time.Millisecond, false}},
	{"older, Unix time in the past", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1700000000", pause{}},
	{"older, Unix microseconds", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000001500000", pause{stint.MaxWindow, false}},
	{"older, absurd", 200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + strings.Repeat("9", 400),
		pause{stint.MaxWindow, false}},
	{"older, words", 200, "X-RateLimit-Remaining: none\nX-RateLimit-Reset: tomorrow", pause{}},
	{"older, no reset", 200, "X-RateLimit-Remaining: 0", pause{}},
	{"older, no reset but refused", 429, "X-RateLimit-Remaining: 0", pause{middleware.DefaultRetryAfter, true}},

	{"cached", 200, "Age: 12\nRateLimit: \"default\";r=0;t=30", pause{18 * time.Second, false}},
	{"cached for longer", 200, "Age: 3600\nRateLimit: \"default\";r=0;t=30", pause{}},
	{"cached, apart", 200, "Age: 12\nRateLimit-Remaining: 0\nRateLimit-Reset: 30", pause{18 * time.Second, false}},
	{"cached, Unix time", 200, "Age: 12\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1800000060", pause{time.Minute, false}},
	{"cached, Unix time by its own clock", 200, "Age: 12\nDate: Fri, 15 Jan 2027 07:00:00 GMT\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1799996460", pause{48 * time.Second, false}},
	{"cached, refused", 429, "Age: 12\nRetry-After: 30", pause{18 * time.Second, true}},
	{"cached for longer, refused", 429, "Age: 30\nRetry-After: 30", pause{middleware.DefaultRetryAfter, true}},
	{"cached, date", 503, "Age: 12\nDate: Fri, 15 Jan 2027 07:00:00 GMT\nRetry-After: Fri, 15 Jan 2027 07:00:30 GMT", pause{18 * time.Second, true}},
	{"cached, in words", 200, "Age: old\nRateLimit: \"default\";r=0;t=30", pause{30 * time.Second, false}},
	{"cached, negative", 200, "Age: -30\nRateLimit: \"default\";r=0;t=30", pause{30 * time.Second, false}},
	{"cached for ever", 200, "Age: " + strings.Repeat("9", 400) + "\nRateLimit: \"default\";r=0;t=30", pause{}},
	{"two forms", 200, "RateLimit: \"default\";r=0;t=30\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 45", pause{45 * time.Second, false}},
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

func TestPause(t *testing.T) {
	for _, test := range pauseTests {
		if got := readPause(responseWith(test.status, test.fields), readAt); got != test.want {
			t.Errorf("%s: %d with %q: got %+v, want %+v", test.name, test.status, test.fields, got, test.want)
		}
	}
}

// For any response, the pause is within bounds, and only refusals are repeated.
func FuzzTold(f *testing.F) {
	for _, test := range pauseTests {
		f.Add(test.status, test.fields)
	}
	f.Fuzz(func(t *testing.T, status int, fields string) {
		got := readPause(responseWith(status, fields), readAt)
		if got.wait < 0 || got.wait > stint.MaxWindow {
			t.Errorf("a pause of %v", got.wait)
		}
		if got.again && (status != 429 && status != 503 || got.wait == 0) {
			t.Errorf("%d is to be repeated after %v", status, got.wait)
		}
	})
}
