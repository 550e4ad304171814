package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

const (
	// maxWait is the maximum time that a call may wait, and also the default. It is below a minute,
	// because many proxies close connections that are idle for that long.
	maxWait = 30 * time.Second
	// maxWaiting is the maximum number of calls that wait at the same time: a tenth of the
	// connections that a listener has by default. The other connections remain free for calls that
	// do not wait.
	maxWaiting = 1000
	// sendTime is the time limit for sending the answer to a call that has waited.
	sendTime = 10 * time.Second
)

type waits struct {
	limiter *stint.Limiter  // uses the API's store
	life    context.Context // canceled by [API.EndWaits]
	end     context.CancelFunc

	waiting, refused atomic.Int64
}

func newWaits(store stint.Store) (*waits, error) {
	limiter, err := stint.New(store)
	if err != nil {
		return nil, err
	}
	w := &waits{limiter: limiter}
	w.life, w.end = context.WithCancel(context.Background())
	return w, nil
}

// Waits returns how many calls are waiting, and how many were refused because too many were
// waiting.
func (a *API) Waits() (waiting, refused int64) { return a.waits.waiting.Load(), a.waits.refused.Load() }

// EndWaits ends all current and future waits. Each call gives back its place in line, and its
// answer tells the caller to ask again. Call EndWaits when the server stops.
func (a *API) EndWaits() { a.waits.end() }

// wait handles a request that waits until it is allowed. If this would take too long, wait refuses
// the request immediately. While the request waits, it has a place in line. If the connection
// closes, the request gives the place back.
func (a *API) wait(w http.ResponseWriter, r *http.Request, body *reader) {
	k := &ask{mode: stint.ModeTake, waits: true}
	known := waitNames()
	var do func(context.Context)
	q := &question{}
	if body.readAsk(k, known) {
		k.maxWait = cmp.Or(k.maxWait, maxWait)
		if k.form() == byAPI {
			client := a.client(body, k.api)
			do = func(ctx context.Context) { a.awaitAPI(ctx, q, client, k) }
		} else {
			q = a.question(body, a.read(), k)
			do = func(ctx context.Context) { a.await(ctx, q) }
		}
	}
	if a.refused(w, body, nil) {
		return
	}
	if a.waits.waiting.Add(1) > maxWaiting {
		a.waits.waiting.Add(-1)
		a.waits.refused.Add(1)
		comeBack(w, "busy", strconv.Itoa(maxWaiting)+" calls are already waiting. Please try again.")
		return
	}
	defer a.waits.waiting.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.waits.life, cancel)()

	// Replace the server's deadlines, which are too short for calls that wait. Errors are ignored,
	// because the writers in tests do not support deadlines.
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(time.Time{})
	_ = deadlines.SetWriteDeadline(time.Now().Add(k.maxWait + sendTime))
	if a.waits.life.Err() == nil {
		do(ctx)
	} else {
		q.verdict.Err = a.waits.life.Err()
	}
	switch {
	case r.Context().Err() != nil && q.verdict.Err != nil:
		// The caller has closed the connection, or only its own side of it.
		comeBack(w, "unavailable", "The connection was closed for writing, and the place in line was given back. "+
			"Please ask again, and keep it open until the answer arrives.")
	case a.waits.life.Err() != nil && q.verdict.Err != nil:
		comeBack(w, "stopping", "The server is stopping, and the place in line was given back. Please ask again.")
	default:
		a.reply(w, r, q, body.alwaysOK)
	}
}

// comeBack refuses a call, and asks the caller to repeat it soon.
func comeBack(w http.ResponseWriter, word, message string) {
	w.Header().Set("Retry-After", outageWait)
	answer.Refuse(w, http.StatusServiceUnavailable, word, message)
}

// await waits until the question is allowed. If the context ends first, await decides nothing, and
// the verdict has the context's error.
func (a *API) await(ctx context.Context, q *question) {
	v := &q.verdict
	if q.claims() > 0 {
		v.Decision, v.Err = a.waits.limiter.WaitFor(ctx, q.request)
		if _, denied := errors.AsType[*stint.DeniedError](v.Err); denied {
			v.Err = nil // the decision contains the denial
		}
		if v.Err != nil && ctx.Err() != nil {
			return
		}
	}
	a.guard.Finish(ctx, v, &q.request)
}

// client returns the client for the third-party API with the given name. If there is none, client
// reports a mistake in the body and returns nil.
func (a *API) client(r *reader, name string) *outbound.Client {
	if a.config.Outbound == nil {
		r.wrongIn("api", "there is no API %q; none is configured", shown(name))
		return nil
	}
	client, err := a.config.Outbound.API(name)
	if invalid, ok := errors.AsType[*stint.InvalidError](err); ok {
		r.wrongIn("api", "%v", invalid.Err)
	}
	return client
}

// awaitAPI waits until a call to a third-party API may be made, and stores the decision in q.
func (a *API) awaitAPI(ctx context.Context, q *question, client *outbound.Client, k *ask) {
	waiting, cancel := context.WithTimeout(ctx, k.maxWait)
	defer cancel()
	d, err := client.Wait(waiting)
	denied, ok := errors.AsType[*stint.DeniedError](err)
	switch {
	case ok:
		d.Allowed, d.RetryAfter, d.Unavailable = false, denied.RetryAfter, denied.Unavailable
		d.Banned, err = denied.Banned || errors.Is(err, outbound.ErrCoolingDown), nil
	case err != nil && ctx.Err() == nil && waiting.Err() != nil:
		// The maximum wait is over, for instance because the API was paused while the call waited.
		if d, err = client.Peek(ctx); err == nil {
			d.Allowed, d.RetryAfter = false, max(d.RetryAfter, time.Second)
		}
	}
	rule := &policy.Rule{Policy: k.api, Index: -1}
	for _, s := range a.config.Outbound.Stats() {
		if s.Name == k.api {
			rule.Limits = s.Limits
		}
	}
	result := policy.Result{Rule: rule, Claim: stint.Claim{Subject: k.api + ":api", Limits: rule.Limits, Cost: 1}}
	if usages := d.Usages(); len(usages) == len(rule.Limits) { // otherwise, the limits have just changed
		result.Usages = usages
	}
	q.api, q.named = true, true
	q.verdict = policy.Verdict{Set: a.guard.Set(), Cost: 1, Decision: d, Results: []policy.Result{result}, Err: err}
}

type pause struct {
	Paused float64 `json:"paused_seconds"`
}

var coolDownNames = []string{"api", "for_seconds"}

// coolDown makes all processes pause their calls to a third-party API, because the API has asked
// one of them to pause.
func (a *API) coolDown(w http.ResponseWriter, _ *http.Request, body *reader) {
	if !a.config.Known {
		answer.Refuse(w, http.StatusForbidden, "forbidden", "A pause stops the calls of all processes, so it needs a token: "+
			"start the server with --api-token-file, or with --tls-client-ca.")
		return
	}
	var api string
	var long time.Duration
	given := map[string]bool{}
	body.object(coolDownNames, func(name string) {
		given[name] = true
		if name == "api" {
			api = body.text(1, maxName)
		} else {
			long = body.seconds(stint.MaxWindow)
		}
	})
	for _, name := range coolDownNames {
		if !given[name] {
			body.wrongIn(name, "is missing")
		}
	}
	var client *outbound.Client
	if body.ok() {
		client = a.client(body, api)
	}
	if a.refused(w, body, nil) {
		return
	}
	answer.JSON(w, http.StatusOK, pause{client.Cooldown(long).Seconds()})
}
