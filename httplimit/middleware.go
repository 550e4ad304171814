package httplimit

import (
	"io"
	"net/http"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/policy"
)

// New returns middleware in which a guard decides every request. Allowed requests are passed to the
// handler, with header fields that show the remaining units. Other requests are answered with 429,
// or with 503 if the store cannot be reached.
//
// It works with any router that accepts middleware of the type func(http.Handler) http.Handler. Put
// it after authentication if tiers depend on claims ([WithClaims]), and before expensive work.
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

// NewAnswer returns a function that answers requests as the middleware of [New] does. It is for
// programs that get their verdicts in another way, such as proxies, or servers that decide requests
// for other programs. The function sets the header fields about limits, and answers a request that
// was denied or could not be decided. It reports whether it answered the request. If not, the
// request may go ahead.
//
// A verdict may come from a source other than a guard, but without a Set its limits are not
// reported. The function is safe for concurrent use. NewAnswer panics if an option is invalid.
func NewAnswer(options ...AnswerOption) func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) (refused bool) {
	f := configured("NewAnswer", options, AnswerOption.applyToAnswer)
	return func(w http.ResponseWriter, r *http.Request, v *policy.Verdict) (refused bool) {
		x := f.begin(nil)
		own := x.v
		x.v = v // v belongs to the caller, so x must not reuse it
		defer func() {
			x.v = own
			x.end()
		}()
		x.rules, x.shown = x.ruleRoom[:0], &policy.Headers{}
		if v.Set != nil {
			x.describe()
		} else if x.headers != nil {
			x.shown = x.headers
		}
		return x.answer(w, r, v.Err)
	}
}

// judge lets guard decide a request. It passes an allowed request to next, and answers any other
// request itself.
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

// exchange holds the state of a request and its answer. Exchanges are reused, so a response must
// not keep references into an exchange's memory.
type exchange struct {
	*responder
	request *http.Request
	writer  http.ResponseWriter
	shown   *policy.Headers
	in      policy.Input
	v       *policy.Verdict
	unread  error         // why the body could not be read before the decision
	head    []byte        // the beginning of the body, if it was read to estimate usage
	rest    io.ReadCloser // the rest of the body, after head
	whole   bool          // whether head is the whole body
	// rules holds the texts of the enforced rules, in the order of the verdict's results.
	rules []*ruleText
	// rule, limit and state belong to the limit that matters most to the client; rule is nil if
	// there is none.
	rule  *ruleText
	limit *limitText
	state stint.State

	draft
	body []byte

	askRoom  [2]middleware.Ask
	ruleRoom [3]*ruleText
	partRoom [drafted]part
	textRoom [512]byte
	bodyRoom [512]byte
}

func (f *responder) begin(r *http.Request) *exchange {
	x, ok := f.idle.Get().(*exchange)
	if !ok {
		x = &exchange{responder: f}
		x.in.Content = x
		x.draft = draft{text: x.textRoom[:0], parts: x.partRoom[:0]}
		x.body = x.bodyRoom[:0]
		if f.claims != nil {
			x.in.Claims = x
		}
	}
	if x.v == nil {
		x.v = new(policy.Verdict)
	}
	x.request = r
	return x
}

func (f *responder) handler(handle func(*exchange, http.ResponseWriter, *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := f.begin(r)
		handle(x, w, r)
		x.end()
	})
}

// end makes the exchange available for another request. The verdict is reused too, unless the
// handler could get it with [FromContext] and keep it.
func (x *exchange) end() {
	if x.shares {
		x.v = nil
	}
	x.request, x.writer, x.rules, x.unread = nil, nil, nil, nil
	x.head, x.rest, x.whole = nil, nil, false
	x.in = policy.Input{Claims: x.in.Claims, Content: x}
	x.draft.clear()
	x.idle.Put(x)
}

// Claim implements [policy.Input.Claims].
func (x *exchange) Claim(name string) string { return x.claims(x.request, name) }
