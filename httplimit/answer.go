package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/policy"
)

// Denial describes a refused request. The function passed to [WithDenied] receives it, and must not
// use it after returning.
type Denial struct {
	// Status is 429, or 503 if the request is refused because the store cannot be reached.
	Status int
	// RetryAfter is the wait in the Retry-After header, in whole seconds, or [stint.Never].
	RetryAfter time.Duration
	// Policy is the name of the policy or tier whose limit denied the request; "" if the limit is
	// unknown. Tier is the name of the request's tier. Both names come from the configuration.
	Policy, Tier string
	// Contact is text or a URL that tells the client where to ask for a higher limit; "" if there
	// is none.
	Contact string
	// Violated lists the names of the limits that denied the request, as in RateLimit-Policy.
	Violated []string
	// Verdict is the complete verdict. Under [By] its Set is nil and its Tier is "".
	Verdict *policy.Verdict

	x      *exchange
	notice *notice
}

// Answer sends the answer that the middleware would send without [WithDenied].
func (d *Denial) Answer(w http.ResponseWriter, r *http.Request) {
	seconds := int64(0)
	if d.RetryAfter != stint.Never {
		seconds = int64(d.RetryAfter / time.Second)
	}
	d.x.write(w, r, d.notice, seconds)
}

// notice is the part of an answer that does not depend on the request.
type notice struct {
	status  int
	message string
	json    string // the beginning of the plain JSON body
	problem string // the beginning of the problem+json body, including the type
	// rest is the part of the problem+json body from the title to the end of the detail, without
	// the closing quote.
	rest string
}

// newNotice returns a notice. problem is a problem type that is registered with IANA, or
// "about:blank".
func newNotice(status int, word, message, problem, title string) *notice {
	return &notice{
		status: status, message: message,
		json:    fmt.Sprintf(`{"error":%q,"message":%q`, word, message),
		problem: fmt.Sprintf(`{"type":%q`, problem),
		rest:    fmt.Sprintf(`,"title":%q,"status":%d,"detail":"%s`, title, status, message),
	}
}

const problems = "https://iana.org/assignments/http-problem-types#"

var (
	limitedNotice = newNotice(http.StatusTooManyRequests, "rate_limited", "Too many requests. Please slow down.",
		problems+"quota-exceeded", "Quota Exceeded")
	neverNotice = newNotice(http.StatusTooManyRequests, "rate_limited", "This request is more than its limit will ever allow. Waiting does not help.",
		problems+"quota-exceeded", "Quota Exceeded")
	bannedNotice = newNotice(http.StatusTooManyRequests, "rate_limited", "Too many requests. Please slow down.",
		problems+"abnormal-usage-detected", "Abnormal Usage Detected")
	unavailableNotice = newNotice(http.StatusServiceUnavailable, "unavailable", "The service cannot take requests at the moment. Please try again.",
		problems+"temporary-reduced-capacity", "Temporary Reduced Capacity")
	slowNotice = newNotice(http.StatusRequestTimeout, "request_timeout",
		"The body of the request did not arrive in time.",
		"about:blank", "Request Timeout")
	largeNotice = newNotice(http.StatusRequestEntityTooLarge, "too_large", "The body of the request is too large.",
		"about:blank", "Request Entity Too Large")
	malformedNotice = newNotice(http.StatusBadRequest, "bad_request", "The body of the request could not be read.",
		"about:blank", "Bad Request")
	brokenNotice = newNotice(http.StatusInternalServerError, "internal", "The request could not be processed.",
		"about:blank", "Internal Server Error")
)

// outageSeconds is the value of Retry-After when the store has failed.
const outageSeconds = 1

// answer sets the header fields about limits, and answers a request that was denied or could not be
// decided. It reports whether it answered the request.
func (x *exchange) answer(w http.ResponseWriter, r *http.Request, err error) (refused bool) {
	switch {
	case err != nil:
		x.fail(w, r, err)
	case !x.v.Decision.Allowed:
		x.refuse(w, r)
	default:
		x.setHeaders(w.Header(), 0)
		x.setDrafted(w.Header())
		return false
	}
	return true
}

func (x *exchange) refuse(w http.ResponseWriter, r *http.Request) {
	n, seconds := limitedNotice, int64(0)
	switch d := &x.v.Decision; {
	case d.Unavailable:
		n, seconds = unavailableNotice, outageSeconds
		x.rules = nil // the usage is unknown
	case d.RetryAfter == stint.Never:
		n = neverNotice
	default:
		if d.Banned {
			n = bannedNotice
		}
		seconds = int64(middleware.RetryAfter(x.v, x.shown.Jitter, time.Second, x.random) / time.Second)
	}
	h := w.Header()
	x.setHeaders(h, seconds)
	if x.denied == nil {
		x.write(w, r, n, seconds)
		return
	}
	x.setRetry(h, seconds)
	x.setDrafted(h)
	x.denied(w, r, x.denial(n, seconds))
}

func (x *exchange) denial(n *notice, seconds int64) *Denial {
	d := &Denial{Status: n.status, RetryAfter: stint.Never, Tier: x.v.Tier, Verdict: x.v, x: x, notice: n}
	if seconds != 0 {
		d.RetryAfter = time.Duration(seconds) * time.Second
	}
	if x.rule != nil {
		d.Policy, d.Contact = x.rule.policy, x.rule.contact
	}
	x.eachViolated(func(l *limitText) { d.Violated = append(d.Violated, l.name) })
	return d
}

// fail answers a request that could not be decided. It answers even if the context has ended:
// without an answer, an outer handler that has canceled the context would assume success.
func (x *exchange) fail(w http.ResponseWriter, r *http.Request, err error) {
	n := unavailableNotice
	var invalid *stint.InvalidError
	switch {
	case x.failed != nil && r.Context().Err() == nil:
		x.failed(w, r, err)
		return
	case errors.Is(err, ErrNoKey) || errors.As(err, &invalid):
		n = brokenNotice
	}
	x.rules, x.rule = nil, nil
	seconds := int64(0)
	if n == unavailableNotice {
		seconds = outageSeconds
	}
	x.write(w, r, n, seconds)
}

// setRetry sets Retry-After to seconds. If seconds is 0, waiting does not help, and setRetry
// removes the field.
func (x *exchange) setRetry(h http.Header, seconds int64) {
	if seconds == 0 {
		setFixed(h, fieldRetryAfter, nil)
		return
	}
	x.number(h, fieldRetryAfter, seconds)
}

// write sends the answer n in the format that the client prefers, with the header fields that are
// in the draft. For seconds, see setRetry.
func (x *exchange) write(w http.ResponseWriter, r *http.Request, n *notice, seconds int64) {
	h := w.Header()
	f := negotiate(r.Header["Accept"])
	x.body = x.appendBody(x.body[:0], f, n, seconds)
	x.setRetry(h, seconds)
	x.number(h, fieldContentLength, int64(len(x.body)))
	x.setDrafted(h)
	setFixed(h, fieldContentType, contentTypes[f])
	setFixed(h, fieldCacheControl, noStore)
	setFixed(h, fieldNoSniff, noSniff)
	w.WriteHeader(n.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(x.body) // fails only if the client has disconnected
	}
}

// appendBody appends the body of an answer. Except for numbers and the id of the denial, all text
// in the body comes from the configuration.
func (x *exchange) appendBody(b []byte, f format, n *notice, seconds int64) []byte {
	switch f {
	case formatPlain:
		b = append(b, n.message...)
		if seconds > 0 {
			b = append(b, " Retry after "...)
			b = strconv.AppendInt(b, seconds, 10)
			b = append(b, " s."...)
		}
		if x.rule != nil && x.rule.contact != "" {
			b = append(append(b, "\nContact: "...), x.rule.contact...)
		}
		return append(b, '\n')
	case formatProblem:
		problem, detail := n.problem, ""
		if x.rule != nil {
			problem, detail = cmp.Or(x.rule.problem, problem), x.rule.detail
		}
		b = append(append(append(append(b, problem...), n.rest...), detail...), '"')
		b = x.appendViolated(b)
	default:
		b = append(b, n.json...)
	}
	if seconds > 0 {
		b = append(b, `,"retry_after_seconds":`...)
		b = strconv.AppendInt(b, seconds, 10)
	}
	if x.rule != nil {
		b = append(b, x.rule.json...)
	}
	const member = `,"denial":"`
	before := len(b)
	if b = x.v.AppendDenialID(append(b, member...)); len(b) > before+len(member) {
		b = append(b, '"')
	} else {
		b = b[:before]
	}
	return append(b, "}\n"...)
}

func (x *exchange) appendViolated(b []byte) []byte {
	separator := `,"violated-policies":["`
	x.eachViolated(func(l *limitText) {
		b = append(b, separator...)
		b = append(b, l.name...)
		separator = `","`
	})
	if separator == `","` {
		b = append(b, `"]`...)
	}
	return b
}

func (x *exchange) eachViolated(f func(*limitText)) {
	x.eachLimit(func(_ *ruleText, l *limitText, s stint.State) {
		if s.RetryAfter != 0 {
			f(l)
		}
	})
}
