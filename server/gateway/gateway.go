package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync/atomic"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/policy"
)

// Gateway is a reverse proxy behind a guard. It is an [http.Handler]: how long the header of a request may take, and how large it
// may be, is up to the [http.Server] that it is given to.
type Gateway struct {
	config Config
	guard  *policy.Guard
	plan   atomic.Pointer[plan] // by the set that was last in force
	served atomic.Uint64        // requests that were up for the access log

	limited  http.Handler // the middleware in front of forward
	proxy    *httputil.ReverseProxy
	lines    lines
	upgraded upgrades
}

// New returns a gateway that passes on what a guard allows. Where the guard's set says something about gateways, a new set is
// in force for the next request. The error lists every mistake in the Config.
func New(guard *policy.Guard, c Config) (*Gateway, error) {
	if guard == nil {
		return nil, &stint.InvalidError{Err: errors.New("gateway: the guard is nil; make one with policy.NewGuard")}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(c.Routes) == 0 && len(guard.Set().Gateway().Routes) == 0 {
		return nil, &stint.InvalidError{Err: errors.New("gateway: there are no Routes, and the configuration has none (gateway.routes); " +
			`want at least one, such as {Upstream: "http://127.0.0.1:3000"}`)}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Routes, c.Reserved = slices.Clone(c.Routes), slices.Clone(c.Reserved)
	g := &Gateway{config: c, guard: guard}
	g.lines.config = &g.config
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      roundTripper{},
		BufferPool:     &buffers{},
		ModifyResponse: accept,
		ErrorHandler:   fail,
		ErrorLog:       slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn),
	}
	limit := httplimit.New(guard, httplimit.WithVerdict(), httplimit.WithDenied(noteDenied), httplimit.WithSendTimeout(0))
	g.limited = limit(http.HandlerFunc(g.forward))
	return g, nil
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(g, w, r)
	defer x.end()
	if patience := x.plan.bodyTimeout; r.ProtoMajor == 1 && r.ContentLength != 0 && patience > 0 {
		// The server waits for bodies that are not passed on. Not every writer can, and those that cannot do without.
		_ = http.NewResponseController(w).SetReadDeadline(x.began.Add(patience))
	}
	if wrong := flaw(r, x.plan.passUnusual); wrong != nil {
		x.answer(x, wrong, nil) // neither charged nor, whatever refunds there are, given back
	} else {
		g.limited.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	}
	x.returned = true
}

// Close ends the connections that were upgraded, waits for their handlers and closes the idle connections to upstreams. An
// [http.Server] that shuts down knows nothing of upgraded connections, so this comes after its Shutdown.
func (g *Gateway) Close() error {
	g.upgraded.close()
	g.lines.closeIdle()
	return nil
}

// noteDenied gives the usual answer to a request that is denied.
func noteDenied(w http.ResponseWriter, r *http.Request, d *httplimit.Denial) {
	x := exchangeOf(r.Context())
	x.verdict, x.limited, x.policy = d.Verdict, true, d.Policy
	d.Answer(w, r)
}

// forward passes on a request that was allowed.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r.Context())
	x.verdict, _ = httplimit.FromContext(r.Context())
	x.fields = maps.Clone(w.Header())
	x.plan = g.planOf(x.verdict.Set()) // which may have been replaced since the request came
	x.route = x.plan.routes.find(r.Host, r.URL)
	switch {
	case r.Method == http.MethodConnect:
		x.answer(w, &methodProblem, nil)
	case x.route == nil:
		x.answer(w, &routeProblem, nil)
	case x.plan.maxBody > 0 && r.ContentLength > x.plan.maxBody:
		x.answer(w, &sizeProblem, nil)
	default:
		x.forwarded = w
		x.watchBody(r)
		g.proxy.ServeHTTP(w, r)
	}
}

// accept looks at the head of a response before it is passed on. What the middleware said about limits is what the client
// gets to see, once: not what the upstream says about its own. An informational response has cleared it.
func accept(resp *http.Response) error {
	x := exchangeOf(resp.Request.Context())
	if resp.StatusCode == http.StatusSwitchingProtocols && !x.upgrade {
		return errUnaskedUpgrade
	}
	h := x.forwarded.Header()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// A server that is about to end says close, of a connection that is no longer its own: the upstream says Upgrade.
		delete(h, "Connection")
		delete(x.fields, "Connection")
	}
	for name := range x.fields {
		delete(resp.Header, name)
	}
	maps.Copy(h, x.fields)
	if _, ok := resp.Header["Content-Type"]; !ok {
		h["Content-Type"] = nil // net/http would guess one
	}
	if len(resp.Trailer) > 0 && x.request.ProtoMajor == 1 && x.request.Method != http.MethodHead {
		delete(resp.Header, "Content-Length") // HTTP/2 can have both, HTTP/1 has trailers after chunks only
	}
	return nil
}

var errUnaskedUpgrade = errors.New("gateway: the upstream switched protocols without being asked")
