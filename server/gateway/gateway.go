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
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/policy"
)

// Gateway is a reverse proxy behind a guard. It is an [http.Handler]: how long clients may take, and how large header fields
// may be, is up to the [http.Server] that it is given to.
type Gateway struct {
	routes       routes
	alsoReserved []string
	reserved     atomic.Pointer[reserved] // of the set in force
	maxBody      int64
	bodyTimeout  time.Duration // 0 is any
	log          *slog.Logger
	access       AccessLog
	served       atomic.Uint64 // requests that were up for the access log

	limited    http.Handler // the middleware in front of forward
	proxy      *httputil.ReverseProxy
	transports *transports
	upgraded   upgrades
}

// New returns a gateway that passes on what a guard allows. The error lists every mistake in the Config.
func New(guard *policy.Guard, c Config) (*Gateway, error) {
	if guard == nil {
		return nil, &stint.InvalidError{Err: errors.New("gateway: the guard is nil; make one with policy.NewGuard")}
	}
	table, err := c.compile()
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	g := &Gateway{
		routes: table, alsoReserved: slices.Clone(c.Reserved), maxBody: c.MaxBody, bodyTimeout: c.BodyTimeout,
		log: c.Logger, access: c.AccessLog, transports: newTransports(&c),
	}
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      g.transports,
		BufferPool:     &buffers{},
		ModifyResponse: accept,
		ErrorHandler:   fail,
		ErrorLog:       slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn),
	}
	limit := httplimit.New(guard, httplimit.WithVerdict(), httplimit.WithDenied(noteDenied))
	g.limited = limit(http.HandlerFunc(g.forward))
	return g, nil
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(g, w, r)
	defer x.end()
	if r.ProtoMajor == 1 && r.ContentLength != 0 && g.bodyTimeout > 0 {
		// The server waits for bodies that are not passed on. Not every writer can, and those that cannot do without.
		_ = http.NewResponseController(w).SetReadDeadline(x.began.Add(g.bodyTimeout))
	}
	g.limited.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	x.returned = true
}

// Close ends the connections that were upgraded, waits for their handlers and closes the idle connections to upstreams. An
// [http.Server] that shuts down knows nothing of upgraded connections, so this comes after its Shutdown.
func (g *Gateway) Close() error {
	g.upgraded.close()
	g.transports.closeIdle()
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
	x.route = g.routes.find(r.Host, r.URL)
	switch {
	case r.Method == http.MethodConnect:
		x.answer(w, &methodProblem, nil)
	case ambiguous(r):
		x.answer(w, &ambiguousProblem, nil)
	case x.route == nil:
		x.answer(w, &routeProblem, nil)
	case g.maxBody > 0 && r.ContentLength > g.maxBody:
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
