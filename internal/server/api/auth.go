package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/policy"
)

func isRefusal(status int) bool { return status >= 400 && status <= 599 }

// statusField is the header field with the status of a refusal. The response itself may have a
// different status, if the proxy asked for one.
const statusField = "X-RateLimit-Status"

func (a *API) serveAuth(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	set := a.guard.Set()
	peer := clientip.PeerOf(r)
	if !set.Trusts(peer) {
		if n, ok := a.untrusted.Allow(1, time.Second); ok {
			a.config.Logger.Error("stint: forward-auth refused a peer that is not a trusted proxy; if it is one, add it to client_ip.trusted_proxies",
				"peer", callers.Peer(r), "unlogged", n)
		}
		answer.Refuse(w, http.StatusForbidden, "untrusted_proxy", "Only trusted proxies may ask. If this is one, add its address to client_ip.trusted_proxies.")
		return
	}
	in, err := originalOf(r)
	status, wrong := denyStatus(r)
	if err := errors.Join(err, wrong); err != nil {
		why := strings.ReplaceAll(err.Error(), "\n", "; ")
		if n, ok := a.unreadable.Allow(1, time.Second); ok {
			a.config.Logger.Error("stint: forward-auth received a request that it cannot read: "+why, "peer", callers.Peer(r), "unlogged", n)
		}
		answer.Refuse(w, http.StatusBadRequest, "invalid", "The request cannot be read: "+why+".")
		return
	}
	in.Peer, in.Header = peer, r.Header
	a.warnOfAuth(set)
	var v policy.Verdict
	a.decideOnly(r.Context(), &in, &v)
	if !a.answer(&refusing{w, status}, r, &v) {
		w.WriteHeader(http.StatusOK)
	}
}

// decideOnly decides a request and charges its estimated cost. It does not hold the estimate,
// because a proxy does not tell the API when the request has ended.
func (a *API) decideOnly(ctx context.Context, in *policy.Input, v *policy.Verdict) {
	var question stint.Request
	if v.Err = a.guard.Prepare(in, v, &question); v.Err == nil && len(question.Claims) > 0 {
		question.Hold = 0
		v.Decision, v.Err = a.store.Take(ctx, question)
	}
	a.guard.Finish(ctx, v, &question)
}

// denyStatus returns the status that the proxy wants for refusals, or 0 if it does not ask for one.
func denyStatus(r *http.Request) (int, error) {
	text := r.URL.Query().Get("deny")
	if text == "" {
		return 0, nil
	}
	status, err := strconv.Atoi(text)
	if err != nil || !isRefusal(status) {
		return 0, errors.New("the parameter deny is not a status; want 400 to 599")
	}
	return status, nil
}

// refusing is a ResponseWriter that replaces the status of refusals. It puts the original status in
// statusField.
type refusing struct {
	http.ResponseWriter
	status int // 0 keeps the original status
}

func (w *refusing) WriteHeader(status int) {
	if isRefusal(status) {
		w.Header().Set(statusField, strconv.Itoa(status))
		if w.status != 0 {
			status = w.status
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// warnOfAuth warns, once per set, about settings that do not work with forward-auth: concurrency
// limits, because their places are not released, and request IDs that are derived from bodies.
func (a *API) warnOfAuth(set *policy.Set) {
	if a.warned.Swap(set) == set {
		return
	}
	spec := set.Spec()
	if i := slices.IndexFunc(spec.Policies, func(p policy.Policy) bool { return p.RequestIDDerive != 0 }); i >= 0 {
		a.config.Logger.Warn("stint: forward-auth does not see the bodies of requests: it derives no ids from them, and charges every repeat of a request",
			"policy", spec.Policies[i].Name)
	}
	for _, rule := range set.Rules() {
		if slices.ContainsFunc(rule.Limits, func(l stint.Limit) bool {
			return l.Algorithm == stint.AlgorithmConcurrency
		}) {
			a.config.Logger.Warn("stint: forward-auth does not see when a request ends: its place under a concurrency limit is kept for the whole window",
				"policy", rule.Name())
			return
		}
	}
}
