package httplimit

import (
	"net/http"

	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/policy"
)

// New returns middleware in which a guard judges every request. Allowed requests are passed to the
// handler, with header fields that show what is left of the limits. Other requests are answered
// with 429, or with 503 if the store cannot be reached.
//
// It works with any router whose middleware is a func(http.Handler) http.Handler. Put it after
// authentication if tiers depend on that ([WithClaims]), and before expensive work.
//
// New panics if the guard or an option is invalid.
func New(guard *policy.Guard, options ...GuardOption) func(http.Handler) http.Handler {
	if guard == nil {
		panic("httplimit: New: the guard is nil; make one with policy.NewGuard")
	}
	f := configured("New", options, GuardOption.applyToGuard)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: New: the handler is nil; want the one to protect")
		}
		return f.handler(func(x *exchange, w http.ResponseWriter, r *http.Request) { x.judge(guard, w, r, next) })
	}
}

// judge has a guard decide on a request, and serves the request if it is allowed.
func (x *exchange) judge(guard *policy.Guard, w http.ResponseWriter, r *http.Request, next http.Handler) {
	x.writer = w
	in := &x.in
	in.Method, in.Host, in.Path, in.RawPath = r.Method, r.Host, r.URL.Path, r.URL.RawPath
	in.Peer, in.Header = clientip.PeerOf(r), r.Header
	ctx := r.Context()
	err := guard.Decide(ctx, in, x.v)
	x.describe()
	if x.answer(w, r, err) {
		return
	}
	if x.unread != nil {
		next = http.HandlerFunc(x.answerUnread)
	}
	x.serve(w, r, next, guard.Follow(ctx, x.v))
}
