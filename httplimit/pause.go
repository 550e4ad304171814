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
	"github.com/stint-limiter/stint/internal/retryafter"
)

// pause is what an API says about its limits in a response.
type pause struct {
	// wait is how long not to call; 0 if it may be called at once.
	wait time.Duration
	// again says that the request was refused for coming too early. It may be repeated.
	again bool
}

// readPause reads what a response says. Dates are measured against the response's own if it has
// one, so that our clock does not matter, else against now. What a cache has kept is as old as its
// Age says, and may be over. Anything else is ignored. No pause is longer than [stint.MaxWindow].
func readPause(resp *http.Response, now time.Time) pause {
	h := resp.Header
	age := ageOf(h)
	at := now.Add(-age)
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		at = date
	}
	refused := resp.StatusCode == http.StatusTooManyRequests
	if refused || resp.StatusCode == http.StatusServiceUnavailable {
		// It is for this very refusal: what is at about quotas beside it does not count.
		if wait := retryAfter(h, at) - age; wait > 0 {
			return pause{wait: wait, again: true}
		}
	}
	wait := max(quotaReset(h, at)-age, 0)
	if refused && wait == 0 {
		wait = retryafter.Default
	}
	return pause{wait: wait, again: refused}
}

// ageOf is how long ago the response was made, as far as caches say.
func ageOf(h http.Header) time.Duration {
	s, _ := plainNumber(h.Get("Age"))
	return pauseOf(s)
}

// retryAfter reads the fields of a refusal: of two the more exact one, unless it says nothing.
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

// quotaReset returns the longest time until a quota of which nothing is left is renewed.
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

// modelQuotas are the fields of APIs of language models, which have several quotas.
var modelQuotas = []struct{ left, reset string }{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
}

// untilRenewed reads a time such as 6m0s or 120ms, a number of seconds, or a date of RFC 3339.
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

// rateLimit reads the structured field: a list of quotas, each with what remains and the seconds to
// its reset, such as
//
//	"burst";r=0;t=30, "daily";r=4711;t=36000
//
// or, as drafts before the eighth had it, one quota as a dictionary:
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

// whenEmpty returns the seconds to a reset if they are a number, and nothing remains.
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

// Above these a reset is no number of seconds but an instant, in seconds since the Unix epoch or in
// milliseconds: the 9th of September 2001. A pause of that length would be 30 years.
const (
	epochSeconds      = 1e9
	epochMilliseconds = 1e12
)

// untilReset is the time to a reset that has three forms.
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

// plainNumber reads digits, and a fraction that some send: no sign, no exponent, no "Infinity".
func plainNumber(text string) (float64, bool) {
	text = strings.TrimSpace(text)
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return n, true // out of range it is infinite
}

func pauseOf(seconds float64) time.Duration {
	if seconds >= stint.MaxWindow.Seconds() {
		return stint.MaxWindow
	}
	return bounded(time.Duration(math.Ceil(seconds*1e6)) * time.Microsecond)
}

func bounded(d time.Duration) time.Duration { return min(max(d, 0), stint.MaxWindow) }
