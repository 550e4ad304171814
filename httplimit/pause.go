package httplimit

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/middleware"
)

type pause struct {
	// wait is the time until the API may be called again; 0 if it may be called at once.
	wait time.Duration
	// again reports whether the request was refused because it came too early, and may be repeated.
	again bool
}

// readPause reads the pause that a response asks for. Dates are compared with the response's own
// Date if it has one, so that the local clock does not matter, and otherwise with now. The age of a
// cached response, from its Age field, is subtracted, so its pause may already be over. No pause is
// longer than [stint.MaxWindow].
func readPause(resp *http.Response, now time.Time) pause {
	h := resp.Header
	age := ageOf(h)
	at := now.Add(-age)
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		at = date
	}
	refused := resp.StatusCode == http.StatusTooManyRequests
	if refused || resp.StatusCode == http.StatusServiceUnavailable {
		// Retry-After states the wait after this refusal, so it takes precedence over fields about
		// quotas.
		if wait := retryAfter(h, at) - age; wait > 0 {
			return pause{wait: wait, again: true}
		}
	}
	wait := max(quotaReset(h, at)-age, 0)
	if refused && wait == 0 {
		wait = middleware.DefaultRetryAfter
	}
	return pause{wait: wait, again: refused}
}

func ageOf(h http.Header) time.Duration {
	s, _ := plainNumber(h.Get("Age"))
	return pauseOf(s)
}

// retryAfter reads the pause from Retry-After-Ms or, if that has no positive value, from
// Retry-After.
func retryAfter(h http.Header, at time.Time) time.Duration {
	if ms, ok := plainNumber(h.Get("Retry-After-Ms")); ok && ms > 0 {
		return pauseOf(ms / 1000)
	}
	text := h.Get("Retry-After")
	if s, ok := plainNumber(text); ok {
		return pauseOf(s)
	}
	if date, err := http.ParseTime(text); err == nil {
		return bounded(date.Sub(at))
	}
	return 0
}

// quotaReset returns the longest time until an exhausted quota is renewed, or 0 if no quota is
// exhausted.
func quotaReset(h http.Header, at time.Time) time.Duration {
	pause := rateLimit(h.Values("RateLimit"))
	for _, prefix := range []string{"RateLimit-", "X-RateLimit-", "X-Rate-Limit-"} {
		if left, ok := plainNumber(h.Get(prefix + "Remaining")); !ok || left != 0 {
			continue
		}
		if reset, ok := plainNumber(h.Get(prefix + "Reset")); ok {
			pause = max(pause, untilReset(reset, at))
		}
	}
	for _, of := range modelQuotas {
		if left, ok := plainNumber(h.Get(of.left)); ok && left == 0 {
			pause = max(pause, untilRenewed(h.Get(of.reset), at))
		}
	}
	return pause
}

// modelQuotas lists the header fields in which language model APIs report their quotas.
var modelQuotas = []struct{ left, reset string }{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
}

// untilRenewed returns the time until the reset that text states. The text is a duration such as
// 6m0s or 120ms, a number as in untilReset, or an RFC 3339 date, which is compared with at.
func untilRenewed(text string, at time.Time) time.Duration {
	if reset, ok := plainNumber(text); ok {
		return untilReset(reset, at)
	}
	if wait, err := time.ParseDuration(text); err == nil {
		return bounded(wait)
	}
	if date, err := time.Parse(time.RFC3339, text); err == nil {
		return bounded(date.Sub(at))
	}
	return 0
}

// rateLimit returns the longest pause in the structured field RateLimit. The field is a list of
// quotas, each with the remaining units and the seconds until its reset, such as
//
//	"burst";r=0;t=30, "daily";r=4711;t=36000
//
// or, as in drafts of the standard before the eighth, a dictionary with a single quota:
//
//	limit=100, remaining=0, reset=30
func rateLimit(values []string) (pause time.Duration) {
	if list, err := httpsfv.UnmarshalList(values); err == nil {
		for _, member := range list {
			item, ok := member.(httpsfv.Item)
			if !ok {
				continue
			}
			left, _ := item.Params.Get("r")
			reset, _ := item.Params.Get("t")
			pause = max(pause, whenEmpty(left, reset))
		}
		return pause
	}
	quota, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return 0
	}
	return whenEmpty(valueOf(quota, "remaining"), valueOf(quota, "reset"))
}

func valueOf(d *httpsfv.Dictionary, key string) any {
	member, _ := d.Get(key)
	item, _ := member.(httpsfv.Item)
	return item.Value
}

// whenEmpty returns the time until a quota resets. It returns 0 unless no units are left and reset
// is a number of seconds.
func whenEmpty(left, reset any) time.Duration {
	if n, ok := left.(int64); !ok || n != 0 {
		return 0
	}
	seconds, ok := reset.(int64)
	if !ok {
		return 0
	}
	return pauseOf(float64(seconds))
}

// A reset of at least epochMilliseconds is a time in milliseconds since the Unix epoch. A smaller
// reset of at least epochSeconds is a time in seconds since then. Any other reset is a number of
// seconds to wait. In practice, the bounds are unambiguous: 1e9 seconds after the epoch is
// September 9, 2001, and a pause of 1e9 seconds would last 30 years.
const (
	epochSeconds      = 1e9
	epochMilliseconds = 1e12
)

// untilReset returns the time until a reset, which has one of the three forms that are described at
// epochSeconds. A time since the epoch is compared with at.
func untilReset(reset float64, at time.Time) time.Duration {
	switch {
	case reset >= epochMilliseconds:
		reset -= float64(at.UnixMilli())
		return pauseOf(reset / 1000)
	case reset >= epochSeconds:
		return pauseOf(reset - float64(at.UnixMilli())/1000)
	}
	return pauseOf(reset)
}

// plainNumber parses a decimal number, such as 30 or 0.5. It accepts fractions, because some APIs
// send them, but no sign, no exponent, and no "Infinity".
func plainNumber(text string) (float64, bool) {
	text = strings.TrimSpace(text)
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return n, true // infinite if out of range
}

func pauseOf(seconds float64) time.Duration {
	if seconds >= stint.MaxWindow.Seconds() {
		return stint.MaxWindow
	}
	return bounded(time.Duration(math.Ceil(seconds*1e6)) * time.Microsecond)
}

func bounded(d time.Duration) time.Duration { return min(max(d, 0), stint.MaxWindow) }
