package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
)

// correction is how a path corrects a charge.
type correction struct {
	kind stint.AmendmentKind
	// known are the members of its body, all of them required. With a cost, only the claims that
	// count it are amended: those that count requests go on counting one.
	known []string
}

var (
	settlement = correction{stint.AmendSettle, []string{"charge", "cost"}}
	refund     = correction{stint.AmendSettle, []string{"charge"}}
	extension  = correction{stint.AmendExtend, []string{"charge"}}
	release    = correction{stint.AmendRelease, []string{"charge"}}
)

type changed struct {
	Changed bool `json:"changed"`
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
		ok, err := a.amend(r.Context(), charge, m)
		if err != nil {
			a.logFailure(err)
			fail(w)
			return
		}
		answer.JSON(w, http.StatusOK, changed{ok})
	}
}

func (a *API) charge(body *reader, as correction, m *stint.Amendment) stint.Charge {
	given := map[string]bool{}
	var c charged
	body.object(as.known, func(name string) {
		given[name] = true
		if name == "cost" {
			m.Cost = body.whole(0, stint.MaxUnits)
			return
		}
		if text := body.text(1, maxCharge); text != "" {
			var err error
			if c, err = a.seal.open(text); err != nil {
				body.wrong("%v", err)
			}
		}
	})
	for _, name := range as.known {
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
// corrected, is as it was.
func (a *API) amend(ctx context.Context, c stint.Charge, m stint.Amendment) (bool, error) {
	if c.Data().ID == 0 {
		return false, nil
	}
	return a.store.Amend(ctx, c, m)
}
