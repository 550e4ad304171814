package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/policy"
)

const usagePath = "/v1/usage"

// usageLimit limits how often a caller may ask for its usage. It counts in a scope whose name no
// policy can have.
var usageLimit = []stint.Limit{stint.PerMinute(60)}

type usage struct {
	Tier string `json:"tier"`
	// Limits are the limits of the tier, followed by the limits of the policies.
	Limits []usageState `json:"limits"`
}

type usageState struct {
	limitState
	Scope string `json:"scope"`
	// Costs reports whether the limit counts costs instead of requests.
	Costs bool `json:"costs"`
}

// serveUsage answers with the caller's own usage. The caller needs no token: a trusted proxy or the
// caller's certificate identifies it.
func (a *API) serveUsage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	set := a.guard.Set()
	tier, counts := a.guard.Counts(caller(set, r))
	if tier == "" {
		answer.Refuse(w, http.StatusUnauthorized, "unauthorized", "The caller is unknown: want claims from a trusted proxy "+
			"(client_ip.trusted_proxies and claims in the configuration), or a client certificate.")
		return
	}
	out := usage{Tier: tier, Limits: []usageState{}}
	ctx, failure := r.Context(), setinfo.FailureOf(set, "", tier)
	if len(counts) > 0 {
		claim := stint.Claim{Subject: counts[0].Subject, Scope: usagePath, Limits: usageLimit, Cost: 1}
		d, err := a.store.Take(ctx, stint.Request{Claims: []stint.Claim{claim}, Failure: &failure})
		switch {
		case err != nil || d.Unavailable:
			fail(w)
			return
		case !d.Allowed:
			w.Header().Set("Retry-After", wholeSeconds(d.RetryAfter))
			answer.Refuse(w, http.StatusTooManyRequests, "limited", "Ask for usage at most "+
				strconv.FormatInt(usageLimit[0].Max, 10)+" times a minute.")
			return
		}
	}
	for len(counts) > 0 {
		n := atOnce(counts)
		if !a.peekAll(ctx, counts[:n], &failure, &out) {
			fail(w)
			return
		}
		counts = counts[n:]
	}
	answer.JSON(w, http.StatusOK, &out)
}

// caller returns a description of the caller: the header fields of a trusted proxy or, if there is
// none, the caller's certificate. The common name of the certificate becomes the claim "user".
func caller(set *policy.Set, r *http.Request) *policy.Input {
	peer := clientip.PeerOf(r)
	in := &policy.Input{Method: r.Method, Host: r.Host, Path: r.URL.Path, Peer: peer}
	switch {
	case set.Trusts(peer):
		in.Header = r.Header
	case r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
		in.Claims = claims{setinfo.User: r.TLS.VerifiedChains[0][0].Subject.CommonName}
	}
	return in
}

// atOnce returns how many elements at the beginning of counts fit into one request.
func atOnce(counts []policy.Result) (n int) {
	for limits := 0; n < min(len(counts), stint.MaxClaims); n++ {
		if limits += len(counts[n].Limits); limits > stint.MaxTotal {
			break
		}
	}
	return n
}

// peekAll adds the usage of counts to out. It returns false if the store fails.
func (a *API) peekAll(ctx context.Context, counts []policy.Result, failure *stint.FailurePolicy, out *usage) bool {
	request := stint.Request{Mode: stint.ModePeek, Failure: failure}
	for i := range counts {
		request.Claims = append(request.Claims, counts[i].Claim)
	}
	d, err := a.store.Take(ctx, request)
	if err != nil || d.Unavailable {
		return false
	}
	for i := range counts {
		c := &counts[i]
		c.Usages = d.UsagesOf(i)
		for k := range c.Usages {
			out.Limits = append(out.Limits, usageState{stateOf(c, c.State(k)), c.Scope, c.Rule.Costs})
		}
	}
	return true
}
