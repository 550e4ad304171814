package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/stint-limiter/stint"
)

// The header fields that answers set, in canonical form, as in http.Header.
const (
	fieldLimit           = "X-Ratelimit-Limit"
	fieldRemaining       = "X-Ratelimit-Remaining"
	fieldReset           = "X-Ratelimit-Reset"
	fieldWindow          = "X-Ratelimit-Window"
	fieldPolicy          = "X-Ratelimit-Policy"
	fieldTier            = "X-Ratelimit-Tier"
	fieldBurst           = "X-Ratelimit-Burst"
	fieldCost            = "X-Ratelimit-Cost"
	fieldDegraded        = "X-Ratelimit-Degraded"
	fieldDenial          = "X-Ratelimit-Denial"
	fieldRateLimit       = "Ratelimit"
	fieldRateLimitPolicy = "Ratelimit-Policy"
	fieldRetryAfter      = "Retry-After"
	fieldContentType     = "Content-Type"
	fieldContentLength   = "Content-Length"
	fieldCacheControl    = "Cache-Control"
	fieldNoSniff         = "X-Content-Type-Options"
)

// drafted is the maximum number of header fields in a [draft].
const drafted = 8

// draft collects header fields whose values change between answers, until setDrafted sets them in
// the header. All values of an answer are parts of one string, and are stored in one slice, so they
// take two allocations in total.
type draft struct {
	text  []byte
	parts []part
	// resets caches values of fieldReset. The index of an entry is the last four bits of its
	// number.
	resets [16]struct {
		number int64
		value  []string
	}
}

// part is a header field in a draft. Its value is the draft's text from the end of the previous
// part to end.
type part struct {
	field  string
	end    int
	number int64 // the value, if it is a number
}

func (d *draft) clear() { d.text, d.parts = d.text[:0], d.parts[:0] }

// endField adds field f to the draft. Its value is the text since the previous field.
func (d *draft) endField(f string) { d.parts = append(d.parts, part{field: f, end: len(d.text)}) }

// number sets header field f to n directly if n is less than smallNumbers, and otherwise adds the
// field to the draft.
func (d *draft) number(h http.Header, f string, n int64) {
	if uint64(n) < smallNumbers {
		h[f] = decimals[n : n+1 : n+1]
		return
	}
	d.text = strconv.AppendInt(d.text, n, 10)
	d.parts = append(d.parts, part{f, len(d.text), n})
}

// setReset is like [draft.number] for fieldReset, but reuses an earlier value if possible. It often
// is: requests that are allowed within one second by limits with the same window have the same
// reset time, and denied requests have only a few different ones.
func (d *draft) setReset(h http.Header, n int64) {
	if r := &d.resets[n&15]; n > 0 && n == r.number {
		h[fieldReset] = r.value
		return
	}
	d.number(h, fieldReset, n)
}

// setDrafted sets the header fields in the draft, and clears the draft. Each field refers to the
// string that holds all values, so the string stays in memory as long as the response header.
func (d *draft) setDrafted(h http.Header) {
	if len(d.parts) == 0 {
		return
	}
	text, from := string(d.text), 0
	values := make([]string, len(d.parts))
	for i, p := range d.parts {
		values[i] = text[from:p.end]
		value := values[i : i+1 : i+1]
		if h[p.field] = value; p.field == fieldReset {
			r := &d.resets[p.number&15]
			r.number, r.value = p.number, value
		}
		from = p.end
	}
	d.clear()
}

// setFixed sets a header field to a value that does not change, or removes it if the value is nil.
// All answers share the value: other code may replace it in a header, but must not write into it.
func setFixed(h http.Header, f string, value []string) {
	if value == nil {
		delete(h, f)
		return
	}
	h[f] = value
}

var (
	isTrue  = fixed("true")
	noStore = fixed("no-store")
	noSniff = fixed("nosniff")
)

// smallNumbers is the length of decimals. The numbers below it cover most limits and waits.
const smallNumbers = 1000

// decimals holds the header values of small numbers. All answers share them, so that a denial with
// X fields does not allocate them.
var decimals = func() (all [smallNumbers]string) {
	for n := range all {
		all[n] = strconv.Itoa(n)
	}
	return all
}()

// fixed returns a value for setFixed. For "" it returns nil, which removes the field.
func fixed(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// setHeaders sets the header fields about limits. Fields without a cached value go into the draft.
// seconds is the value of Retry-After, or 0 if the answer has none.
func (x *exchange) setHeaders(h http.Header, seconds int64) {
	if !x.shown.OmitX || !x.v.Decision.Allowed {
		x.findDecisive()
	}
	if !x.shown.OmitX {
		x.setX(h, seconds)
	}
	if x.shown.Draft11 && len(x.rules) > 0 && len(x.v.Decision.Usages()) > 0 {
		x.setDraft11(h)
	}
}

// setX sets the X fields, which show the limit that matters most. They replace X fields that an
// outer layer has set.
func (x *exchange) setX(h http.Header, seconds int64) {
	var degraded []string
	if x.v.Decision.Degraded {
		degraded = isTrue
	}
	setFixed(h, fieldDegraded, degraded)
	before := len(x.text)
	if x.text = x.v.AppendDenialID(x.text); len(x.text) > before {
		x.endField(fieldDenial)
	}
	if x.rule == nil {
		return
	}
	setFixed(h, fieldLimit, x.limit.max)
	setFixed(h, fieldWindow, x.limit.window)
	setFixed(h, fieldPolicy, x.rule.policyField)
	setFixed(h, fieldTier, x.rule.tierField)
	setFixed(h, fieldBurst, x.limit.burst)
	x.number(h, fieldRemaining, x.state.Remaining())
	x.number(h, fieldCost, x.v.Cost)
	after, more := x.state.ResetAfter, int64(0)
	if d := &x.v.Decision; !d.Allowed {
		// Use the same instant as Retry-After, including any jitter.
		after, more = d.RetryAfter, seconds-wholeSeconds(d.RetryAfter)
	}
	switch {
	case !x.limit.timed || after == stint.Never:
		setFixed(h, fieldReset, nil)
	case x.shown.ResetDelta:
		x.setReset(h, wholeSeconds(after)+more)
	default:
		now := time.Now()
		x.setReset(h, now.Unix()+wholeSeconds(time.Duration(now.Nanosecond())+after)+more)
	}
}

// findDecisive sets x.rule, x.limit and x.state for the limit that matters most to the client. This
// is the limit that [stint.Decision.Decisive] returns, with one exception: a concurrency limit that
// does not deny ranks below every other limit, because its places are usually given back soon, at
// times that cannot be predicted.
func (x *exchange) findDecisive() {
	x.rule = nil
	x.eachLimit(func(r *ruleText, l *limitText, s stint.State) {
		more := x.rule == nil
		switch {
		case more:
		case l.timed != x.limit.timed && s.RetryAfter == 0 && x.state.RetryAfter == 0:
			more = l.timed
		default:
			more = s.Outweighs(x.state)
		}
		if more {
			x.rule, x.limit, x.state = r, l, s
		}
	})
}

// maxPolicies is the maximum length in bytes of a RateLimit-Policy with all limits. If the field
// would be longer, RateLimit-Policy and RateLimit show only the limit that matters most, because
// proxies reject responses with large headers. By default, nginx rejects a header above 4 KiB. If
// an answer to auth_request has such a header, nginx treats the answer as a failure of the server.
const maxPolicies = 512

// setDraft11 adds RateLimit and RateLimit-Policy, for all limits.
func (x *exchange) setDraft11(h http.Header) {
	size := 0
	for _, r := range x.rules {
		for _, text := range r.policies {
			size += len(text) + len(", ")
		}
	}
	if size > maxPolicies {
		x.setDecisive()
		return
	}
	if len(x.rules) == 1 {
		setFixed(h, fieldRateLimitPolicy, x.rules[0].policies)
	} else {
		for i, r := range x.rules {
			if i > 0 {
				x.text = append(x.text, ", "...)
			}
			x.text = append(x.text, r.policies[0]...)
		}
		x.endField(fieldRateLimitPolicy)
	}
	b, separator := x.text, ""
	x.eachLimit(func(_ *ruleText, l *limitText, s stint.State) {
		b = appendItem(append(b, separator...), l, s)
		separator = ", "
	})
	x.text = b
	x.endField(fieldRateLimit)
}

// setDecisive is like setDraft11, but only for the limit that matters most.
func (x *exchange) setDecisive() {
	if x.findDecisive(); x.rule == nil {
		return
	}
	x.text = append(x.text, x.limit.policy...)
	x.endField(fieldRateLimitPolicy)
	x.text = appendItem(x.text, x.limit, x.state)
	x.endField(fieldRateLimit)
}

// appendItem appends l's item in RateLimit. The effective window of a limit that denies is the time
// until it has room. For any other limit, it is the time until the limit is unused: a client that
// spreads the remaining units over that time is never denied.
func appendItem(b []byte, l *limitText, s stint.State) []byte {
	b = append(b, l.item...)
	b = strconv.AppendInt(b, quota(s.Remaining()), 10)
	if l.timed {
		window := s.ResetAfter
		if s.RetryAfter > 0 && s.RetryAfter != stint.Never {
			window = s.RetryAfter
		}
		b = append(b, ";t="...)
		b = strconv.AppendInt(b, wholeSeconds(window), 10)
	}
	return b
}
