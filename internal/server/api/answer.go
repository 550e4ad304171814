package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/policy"
)

type decision struct {
	Allowed    bool     `json:"allowed"`
	Tier       string   `json:"tier"`
	Policy     string   `json:"policy"`
	Route      string   `json:"route"`
	Skipped    string   `json:"skipped"`
	Cost       int64    `json:"cost"`
	RetryAfter *float64 `json:"retry_after_seconds"`
	Banned     bool     `json:"banned"`
	Degraded   bool     `json:"degraded"`
	Repeat     bool     `json:"repeat"`
	// Limits are the enforced limits that applied to the request.
	Limits []limitState `json:"limits"`
	// Shadowed lists the policies and tiers in shadow that would have denied the request.
	Shadowed []string `json:"shadowed"`
	Charge   string   `json:"charge"`
	// Hold is the time, in seconds, after which the hold expires if there is no heartbeat.
	Hold float64 `json:"hold_seconds,omitempty"`
	// Denial is the ID of the denial, for "stint why".
	Denial string `json:"denial,omitempty"`
	// Cacheable reports whether the caller may reuse the denial until the wait is over, instead of
	// asking again.
	Cacheable bool `json:"cacheable,omitempty"`
	// Contact tells denied callers where to ask for a higher limit.
	Contact string `json:"contact"`
}

type limitState struct {
	Subject    string   `json:"subject"`
	Policy     string   `json:"policy"`
	Name       string   `json:"name"`
	Limit      string   `json:"limit"`
	Max        int64    `json:"max"`
	Window     float64  `json:"window_seconds"`
	Burst      int64    `json:"burst"`
	Used       int64    `json:"used"`
	Remaining  int64    `json:"remaining"`
	ResetAfter *float64 `json:"reset_after_seconds"`
	RetryAfter *float64 `json:"retry_after_seconds"`
}

// result is the answer to a single request, or to one request of a batch. It is either a decision
// or the problem that prevented the decision.
type result struct {
	Status   int       `json:"status"`
	Decision *decision `json:"decision,omitempty"`
	Problem  *problem  `json:"problem,omitempty"`
}

type results struct {
	Results []result `json:"results"`
}

func one(mode stint.Mode) func(*API, http.ResponseWriter, *http.Request, *reader) {
	known := askNames(mode, false)
	return func(a *API, w http.ResponseWriter, r *http.Request, body *reader) {
		q := a.ask(body, a.read(), mode, known)
		if a.refused(w, body, nil) {
			return
		}
		a.decide(r.Context(), q)
		a.reply(w, r, q, body.alwaysOK)
	}
}

// reply writes the response to a decided request. If alwaysOK is true, a denial has status 200.
func (a *API) reply(w http.ResponseWriter, r *http.Request, q *question, alwaysOK bool) {
	d := &q.verdict.Decision
	switch {
	case q.verdict.Err == nil && !q.api:
		a.addHeaders(w, r, &q.verdict)
	case q.verdict.Err == nil && !d.Allowed && d.RetryAfter != stint.Never:
		w.Header().Set("Retry-After", wholeSeconds(d.RetryAfter))
	}
	result := a.resultOf(r.Context(), q)
	switch {
	case result.Decision != nil && alwaysOK:
		answer.JSON(w, http.StatusOK, result.Decision)
	case result.Decision != nil:
		answer.JSON(w, result.Status, result.Decision)
	case result.Status == http.StatusServiceUnavailable:
		fail(w)
	default:
		answer.JSON(w, result.Status, result.Problem)
	}
}

// wholeSeconds formats a wait for Retry-After, in seconds, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// agree raises the wait in the body of a denial to the wait in Retry-After if they differ by a
// second or more, because Retry-After may include jitter.
func agree(_ http.ResponseWriter, _ *http.Request, d *httplimit.Denial) {
	if exact := &d.Verdict.Decision.RetryAfter; d.RetryAfter-*exact >= time.Second {
		*exact = d.RetryAfter
	}
}

const maxBatch = 100

// batch decides the requests in a batch. If the body has mistakes, batch decides none of them.
func (a *API) batch(w http.ResponseWriter, r *http.Request, body *reader) {
	var questions []*question
	with, known := a.read(), askNames(stint.ModeTake, true)
	body.object([]string{"requests"}, func(string) {
		body.array(maxBatch, "requests", func(int) {
			questions = append(questions, a.ask(body, with, stint.ModeTake, known))
		})
	})
	if len(questions) == 0 && body.ok() {
		body.wrongIn("requests", "is missing or empty; want 1 to %d requests", maxBatch)
	}
	if a.refused(w, body, nil) {
		return
	}
	var group sync.WaitGroup
	for _, q := range questions { // in parallel, so that the store may batch them
		group.Go(func() { a.decide(r.Context(), q) })
	}
	group.Wait()
	all := results{Results: make([]result, len(questions))}
	for i, q := range questions {
		all.Results[i] = a.resultOf(r.Context(), q)
	}
	answer.JSON(w, http.StatusOK, all)
}

func (a *API) resultOf(ctx context.Context, q *question) result {
	var impossible *stint.InvalidError
	switch {
	case errors.As(q.verdict.Err, &impossible):
		// The request passed Validate, but the store found a mistake, for example a booking across
		// several nodes.
		return result{Status: http.StatusBadRequest,
			Problem: mistaken("The request cannot be decided.", mistakesOf(q.verdict.Err))}
	case q.verdict.Err != nil || q.verdict.Decision.Unavailable:
		return result{Status: http.StatusServiceUnavailable, Problem: unavailable()}
	case !q.verdict.Decision.Allowed && q.mode != stint.ModePeek: // a peek is answered with 200
		return result{Status: http.StatusTooManyRequests, Decision: a.decisionOf(ctx, q)}
	}
	return result{Status: http.StatusOK, Decision: a.decisionOf(ctx, q)}
}

// outageWait is the default Retry-After of responses with status 503, in seconds.
const outageWait = "1"

func fail(w http.ResponseWriter) {
	if w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", outageWait)
	}
	answer.JSON(w, http.StatusServiceUnavailable, unavailable())
}

func unavailable() *problem {
	return &problem{Problem: answer.Problem{
		Error: "unavailable", Message: "The store is unavailable. Please try again."}}
}

func (a *API) decisionOf(ctx context.Context, q *question) *decision {
	v, d := &q.verdict, &q.verdict.Decision
	out := &decision{
		Allowed: d.Allowed, Tier: v.Tier, Route: v.Route, Skipped: v.Skipped, Cost: v.Cost,
		RetryAfter: seconds(d.RetryAfter),
		Banned:     d.Banned, Degraded: d.Degraded, Repeat: d.Repeat,
		Limits: []limitState{}, Shadowed: []string{},
		Charge:    a.keys.textOf(ctx, &charged{d.Charge, q.priced()}),
		Cacheable: q.cacheable(),
	}
	if !d.Charge.IsZero() {
		out.Hold = d.Charge.Data().Hold.Seconds()
	}
	if !q.api { // "stint why" does not know denials of calls to third-party APIs
		out.Denial = string(v.AppendDenialID(nil))
	}
	if q.named {
		out.Route = ""
	}
	if decisive := v.Decisive(); decisive != nil {
		out.Policy = decisive.Rule.Name()
		if !d.Allowed {
			out.Contact = decisive.Rule.Contact
		}
	}
	for i := range v.Results {
		r := &v.Results[i]
		switch name := r.Rule.Name(); {
		case !r.Shadow:
			for k := range r.Usages {
				out.Limits = append(out.Limits, stateOf(r, r.State(k)))
			}
		case r.Denied:
			out.Shadowed = append(out.Shadowed, name)
		}
	}
	return out
}

// cacheable reports whether the caller may reuse a denial instead of asking again. It may if both
// of these are true:
//   - Until the wait is over, the store would deny the same request again, unless units are given
//     back or a limit changes.
//   - Denials do not count toward a ban.
func (q *question) cacheable() bool {
	r, d := &q.request, &q.verdict.Decision
	if d.Allowed || d.Degraded || d.RetryAfter == stint.Never || q.api ||
		r.Mode != stint.ModeTake || r.Hold != 0 || r.Bans != nil && r.Bans.After != 0 {
		return false
	}
	for i := range r.Claims {
		if r.Claims[i].Shared {
			return false // the wait may include jitter
		}
		for _, l := range r.Claims[i].Limits {
			if l.Algorithm == stint.AlgorithmConcurrency || l.Leased {
				return false
			}
		}
	}
	return true
}

func stateOf(r *policy.Result, s stint.State) limitState {
	return limitState{
		Subject: r.Subject, Policy: r.Rule.Name(), Name: s.Limit.Name, Limit: s.Limit.String(), Max: s.Limit.Max,
		Window: s.Limit.Window.Seconds(), Burst: s.Limit.Capacity(),
		Used: s.Used, Remaining: s.Remaining(), ResetAfter: seconds(s.ResetAfter),
		RetryAfter: seconds(s.RetryAfter),
	}
}

// seconds returns a duration in seconds, rounded up to milliseconds so that callers do not try
// again too early. For [stint.Never], it returns nil.
func seconds(d time.Duration) *float64 {
	if d == stint.Never {
		return nil
	}
	n := float64((d+time.Millisecond-1)/time.Millisecond) / 1000
	return &n
}
