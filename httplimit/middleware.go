package httplimit

import (
	"net/http"

	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/policy"
)

// New returns middleware that lets a guard judge every request: what is allowed goes on to the
// handler, with header fields that show what is left; the rest is answered with 429, or with 503
// for want of the store.
//
// It takes any router whose middleware is a func(http.Handler) http.Handler. Put it behind what
// authenticates requests if tiers depend on that ([WithClaims]), and in front of what is expensive.
//
// A guard that is nil is a mistake in the program: New panics.
func New(guard *policy.Guard, options ...Option) func(http.Handler) http.Handler {
	if guard == nil {
		panic("httplimit: New: the guard is nil; make one with policy.NewGuard")
	}
	f := newResponder(options)
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: New: the handler is nil; want the one to protect")
		}
		return &guarded{responder: f, guard: guard, next: next}
	}
}

type guarded struct {
	*responder
	guard *policy.Guard
	next  http.Handler
}

func (h *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.begin(r)
	h.handle(x, w, r)
	x.end()
}

func (h *guarded) handle(x *exchange, w http.ResponseWriter, r *http.Request) {
	x.writer = w
	in := &x.in
	in.Method, in.Host, in.Path, in.RawPath = r.Method, r.Host, r.URL.Path, r.URL.RawPath
	in.Peer, in.Header = clientip.PeerOf(r), r.Header
	ctx := r.Context()
	err := h.guard.Decide(ctx, in, x.v)
	x.describe()
	if x.answer(w, r, err) {
		return
	}
	next := h.next
	if x.unread != nil {
		next = http.HandlerFunc(x.answerUnread)
	}
	x.serve(w, r, next, h.guard.Follow(ctx, x.v))
}
