package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/policy"
)

// correction is how a path corrects a charge.
type correction struct {
	kind stint.AmendmentKind
	// known are the members of its body, of which so many are required. With a cost, only the
	// claims that count it are amended: those that count requests go on counting one.
	known    []string
	required int
}

var (
	settlement = correction{stint.AmendSettle, []string{"charge", "cost", "max_debt"}, 2}
	refund     = correction{stint.AmendSettle, []string{"charge"}, 1}
	extension  = correction{stint.AmendExtend, []string{"charge"}, 1}
	release    = correction{stint.AmendRelease, []string{"charge"}, 1}
)

type changed struct {
	Changed bool `json:"changed"`
	// Charged is what a settlement left charged.
	Charged *int64 `json:"charged,omitempty"`
}

func amend(as correction) func(*API, http.ResponseWriter, *http.Request, *reader) {
	return func(a *API, w http.ResponseWriter, r *http.Request, body *reader) {
		// A charge that a client kept for long must not take a place that it no longer has.
		m := stint.Amendment{Kind: as.kind, KnownOnly: as.kind == stint.AmendExtend}
		charge := a.charge(body, as, &m)
		if !body.ok() {
			refuseMistakes(w, body)
			return
		}
		done, err := a.amend(r.Context(), charge, m)
		if err != nil {
			a.logFailure(err)
			fail(w)
			return
		}
		out := changed{Changed: done.Changed}
		if done.Changed && len(as.known) > 1 {
			out.Charged = &done.Charged
		}
		answer.JSON(w, http.StatusOK, out)
	}
}

func (a *API) charge(body *reader, as correction, m *stint.Amendment) stint.Charge {
	given := map[string]bool{}
	var c charged
	body.object(as.known, func(name string) {
		given[name] = true
		switch name {
		case "cost":
			m.Cost = body.whole(0, stint.MaxUnits)
			return
		case "max_debt":
			m.MaxDebt = body.whole(1, stint.MaxUnits)
			return
		}
		if text := body.text(1, maxCharge); text != "" {
			var err error
			if c, err = a.seal.open(text); err != nil {
				body.wrong("%v", err)
			}
		}
	})
	for _, name := range as.known[:as.required] {
		if !given[name] {
			body.wrongIn(name, "is missing")
		}
	}
	if !given["cost"] {
		return c.Charge
	}
	return c.Part(c.costs()...)
}

// logFailure logs a failure of the store, at most one a second. A caller that has gone away, or an
// invalid request, is not one.
func (a *API) logFailure(err error) {
	if _, invalid := errors.AsType[*stint.InvalidError](err); invalid || errors.Is(err, context.Canceled) {
		return
	}
	if n, ok := a.failures.Allow(1, time.Second); ok {
		a.config.Logger.Error("stint: a charge could not be amended through the API", "cause", err, "unlogged", n)
	}
}

// amend corrects a charge. One that nothing is left of, because none of its claims counts what is
// corrected, is as it was. A settlement of which a part is not charged is logged, and the observer
// receives it.
func (a *API) amend(ctx context.Context, c stint.Charge, m stint.Amendment) (done stint.Amended, err error) {
	if c.Data().ID == 0 {
		return done, nil
	}
	if done, err = a.store.Amend(ctx, c, m); err != nil || !done.Changed || done.Charged >= m.Cost {
		return done, err
	}
	if n, ok := a.cuts.Allow(logsample.Few, time.Second); ok {
		a.config.Logger.Warn("stint: a settlement through the API was not charged wholly: its debt would be too large",
			"key", label.Short(c.Claims()[0].Key()), "charged", done.Charged, "cost", m.Cost, "unlogged", n)
	}
	if a.config.Observer != nil {
		a.config.Observer.Observe(ctx, &policy.Settlement{Cost: m.Cost, Amended: done})
	}
	return done, nil
}
