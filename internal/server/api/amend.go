package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/policy"
)

// The members that a request body may have, for each kind of amendment.
var (
	settleNames  = []string{"charge", "cost", "costs", "max_debt"}
	extendNames  = []string{"charge", "cost", "costs"}
	releaseNames = []string{"charge"}
)

type changed struct {
	Changed bool `json:"changed"`
	// Charged is the number of units that remain charged after a settlement; nil for other
	// amendments.
	Charged *int64 `json:"charged,omitempty"`
}

// settle replaces the charged cost with the actual cost. It applies only to claims that count
// costs; claims that count requests keep their cost of 1.
func (a *API) settle(w http.ResponseWriter, r *http.Request, body *reader) {
	m := stint.Amendment{Kind: stint.AmendSettle}
	c, err := a.charge(r.Context(), body, &m, settleNames)
	if a.refused(w, body, err) {
		return
	}
	amend := func(part stint.Charge, m stint.Amendment) (stint.Amended, error) {
		return a.store.Amend(r.Context(), part, m)
	}
	settle := contract.Settle
	if c.quantities() == 1 { // the charge cannot have been settled only in part
		settle = contract.SettleOnce
	}
	done, err := settle(c.Charge, c.costs(), m, amend)
	if err == nil {
		a.settled(r.Context(), &c.Charge, m, done)
	}
	a.answerAmended(w, body, done, err, done.Changed && c.priced != 0)
}

// refund gives back a whole charge, or everything that was charged for a request ID.
func (a *API) refund(w http.ResponseWriter, r *http.Request, body *reader) {
	k, _ := body.ask(stint.ModePeek, append([]string{"charge"}, askNames(stint.ModePeek, false)...))
	if a.refused(w, body, nil) {
		return
	}
	var c stint.Charge
	var err error
	if k.says("charge") {
		var of charged
		of, err = a.keys.open(r.Context(), k.charge)
		if err != nil && err != errKeysAway {
			body.wrongIn("charge", "%v", err)
		}
		c = of.Charge
	} else {
		c, err = a.chargeOf(r.Context(), body, k)
	}
	if a.refused(w, body, err) {
		return
	}
	var done stint.Amended
	if m := (stint.Amendment{Kind: stint.AmendSettle}); !c.IsZero() {
		if done, err = a.store.Amend(r.Context(), c, m); err == nil {
			a.settled(r.Context(), &c, m, done)
		}
	}
	a.answerAmended(w, body, done, err, false)
}

// chargeOf looks up a request's charge by the request's ID, for a caller that lost the answer. The
// charge is zero if the store has none for the ID, or if the body has mistakes.
func (a *API) chargeOf(ctx context.Context, body *reader, k *ask) (stint.Charge, error) {
	if !k.says("id") {
		body.wrongIn("id", "is missing; want the id of the request, or a charge")
		return stint.Charge{}, nil
	}
	q := a.question(body, a.read(), k)
	if !body.ok() || q.claims() == 0 {
		return stint.Charge{}, nil
	}
	q.request.Bans = nil // charges of a banned subject can be refunded, too
	q.request.Failure = &stint.FailurePolicy{Mode: stint.FailError, Budget: q.request.Failure.Budget}
	d, err := a.store.Take(ctx, q.request)
	if err != nil || !d.Repeat {
		return stint.Charge{}, err
	}
	return d.Charge, nil
}

// extend handles a heartbeat, which renews places and holds. The body may contain the cost so far.
func (a *API) extend(w http.ResponseWriter, r *http.Request, body *reader) {
	// KnownOnly prevents an old charge from taking back a place that has expired.
	m := stint.Amendment{Kind: stint.AmendExtend, KnownOnly: true}
	c, err := a.charge(r.Context(), body, &m, extendNames)
	if a.refused(w, body, err) {
		return
	}
	costs, others := c.parts()
	done := stint.Amended{Changed: true}
	if m.Cost == 0 && m.Costs == nil {
		costs, others = stint.Charge{}, c.Charge
	}
	if !others.IsZero() {
		done, err = a.store.Amend(r.Context(), others, stint.Amendment{Kind: stint.AmendExtend, KnownOnly: true})
	}
	if err == nil && !costs.IsZero() {
		var renewed stint.Amended
		renewed, err = a.store.Amend(r.Context(), costs, m)
		done.Changed = done.Changed && renewed.Changed
	}
	if hold := c.Data().Hold; err == nil && hold > 0 && !done.Changed {
		a.observe(r.Context(), &policy.Settlement{Hold: hold, Expired: true})
	}
	a.answerAmended(w, body, done, err, false)
}

func (a *API) release(w http.ResponseWriter, r *http.Request, body *reader) {
	m := stint.Amendment{Kind: stint.AmendRelease}
	c, err := a.charge(r.Context(), body, &m, releaseNames)
	if a.refused(w, body, err) {
		return
	}
	done, err := a.store.Amend(r.Context(), c.Charge, m)
	a.answerAmended(w, body, done, err, false)
}

// refused answers with an error if the body has mistakes or err is not nil. It reports whether it
// has answered.
func (a *API) refused(w http.ResponseWriter, body *reader, err error) bool {
	switch {
	case !body.ok():
		refuseMistakes(w, body)
	case err != nil:
		a.logFailure(err)
		fail(w)
	default:
		return false
	}
	return true
}

func (a *API) answerAmended(w http.ResponseWriter, body *reader, done stint.Amended, err error, charged bool) {
	if a.refused(w, body, err) {
		return
	}
	out := changed{Changed: done.Changed}
	if charged {
		out.Charged = &done.Charged
	}
	answer.JSON(w, http.StatusOK, out)
}

// charge reads the body of an amendment. It returns the charge, and stores the costs and the
// maximum debt in m. If the body has no mistakes, the error is nil or errKeysAway.
func (a *API) charge(ctx context.Context, body *reader, m *stint.Amendment, known []string) (c charged, err error) {
	given := map[string]bool{}
	body.object(known, func(name string) {
		given[name] = true
		switch name {
		case "cost":
			m.Cost = body.whole(0, stint.MaxUnits)
		case "costs":
			m.Costs = body.costs()
		case "max_debt":
			m.MaxDebt = body.whole(1, stint.MaxUnits)
		case "charge":
			if text := body.text(1, maxCharge); text != "" {
				if c, err = a.keys.open(ctx, text); err != nil && err != errKeysAway {
					body.wrong("%v", err)
				}
			}
		}
	})
	if !given["charge"] {
		body.wrongIn("charge", "is missing")
	}
	if given["cost"] && given["costs"] {
		body.wrongIn("costs", "conflicts with cost; want one or the other")
	}
	if m.Kind == stint.AmendSettle && !given["cost"] && !given["costs"] {
		body.wrongIn("cost", "is missing")
	}
	if !body.ok() || err != nil {
		return c, err
	}
	costs, _ := c.parts()
	names := namesOf(&costs)
	for name := range m.Costs {
		if !slices.Contains(names, name) {
			body.wrongIn("costs."+shown(name), "no limit of the charge that counts costs has this name%s",
				messages.Hint(name, names))
		}
	}
	return c, nil
}

// costs returns the indexes of the claims that count costs.
func (c *charged) costs() (claims []int) {
	for i := range c.Claims() {
		if c.priced&(1<<i) != 0 {
			claims = append(claims, i)
		}
	}
	return claims
}

// quantities returns the number of different limit names in the claims that count costs. Limits
// with the same name count the same quantity, and each quantity can be settled separately.
func (c *charged) quantities() int {
	names := map[string]bool{}
	for _, i := range c.costs() {
		for _, name := range contract.StateNames(&c.Claims()[i], nil) {
			names[name] = true
		}
	}
	return len(names)
}

// parts splits c into a charge with the claims that count costs and a charge with all other claims.
// If there are no such claims, the charge is zero.
func (c *charged) parts() (costs, others stint.Charge) {
	var rest []int
	for i := range c.Claims() {
		if c.priced&(1<<i) == 0 {
			rest = append(rest, i)
		}
	}
	return c.Part(c.costs()...), c.Part(rest...)
}

func namesOf(c *stint.Charge) (names []string) {
	claims := c.Claims()
	for i := range claims {
		for k := range claims[i].Limits {
			if name := claims[i].Limits[k].Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// logFailure logs err, a failure of the store, at most once per second. It does not log errors
// about invalid requests, or about calls that the caller has canceled.
func (a *API) logFailure(err error) {
	if _, invalid := errors.AsType[*stint.InvalidError](err); invalid || errors.Is(err, context.Canceled) {
		return
	}
	if n, ok := a.failures.Allow(1, time.Second); ok {
		a.config.Logger.Error("stint: a charge could not be amended through the API", "cause", err, "unlogged", n)
	}
}

// settled logs a settlement that was charged only in part, and sends it to the observer. It also
// sends every settlement of a hold to the observer. It ignores settlements that changed nothing.
func (a *API) settled(ctx context.Context, c *stint.Charge, m stint.Amendment, done stint.Amended) {
	if !done.Changed {
		return
	}
	s := &policy.Settlement{Cost: contract.Total(&m), Amended: done}
	s.SetHold(c)
	if done.Charged < s.Cost {
		if n, ok := a.cuts.Allow(logsample.Few, time.Second); ok {
			a.config.Logger.Warn("stint: a settlement through the API was charged only in part: its debt would be too large",
				"key", label.Short(c.Claims()[0].Key()), "charged", done.Charged, "cost", s.Cost, "unlogged", n)
		}
	}
	if done.Charged < s.Cost || s.Hold > 0 {
		a.observe(ctx, s)
	}
}

func (a *API) observe(ctx context.Context, s *policy.Settlement) {
	if a.config.Observer != nil {
		a.config.Observer.Observe(ctx, s)
	}
}
