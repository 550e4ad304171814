package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync/atomic"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/policy"
)

// Gateway is a reverse proxy that forwards the requests that a guard allows. The [http.Server] that
// serves it must limit the size of a request's header, and the time until the header has arrived.
type Gateway struct {
	config   config.Gateway
	guard    *policy.Guard
	settings atomic.Pointer[settings] // the settings for the latest set
	served   atomic.Uint64            // number of requests counted for AccessLogEvery
	// denied and malformed limit how many refused requests are logged per second.
	denied, malformed logsample.Sampler

	limited    http.Handler // the middleware in front of forward
	proxy      *httputil.ReverseProxy
	transports transports
	upgraded   upgrades
}

// New returns a gateway that forwards the requests that guard allows. If guard gets a new set, the
// gateway settings in that set apply to all later requests. The error lists every mistake in c.
func New(guard *policy.Guard, c config.Gateway) (*Gateway, error) {
	if err := Validate(&c); err != nil {
		return nil, err
	}
	if len(c.Routes) == 0 && len(setinfo.Config(guard.Set()).Gateway.Routes) == 0 {
		return nil, &stint.InvalidError{Err: errors.New("gateway: there are no Routes, and no gateway.routes in the configuration; " +
			`want at least one, such as {Upstream: "http://127.0.0.1:3000"}`)}
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Routes, c.Reserved = slices.Clone(c.Routes), slices.Clone(c.Reserved)
	g := &Gateway{config: c, guard: guard}
	g.transports.config = &g.config
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      roundTripper{},
		BufferPool:     &buffers{},
		ModifyResponse: accept,
		ErrorHandler:   fail,
		ErrorLog:       slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn),
	}
	limit := httplimit.New(guard, httplimit.WithVerdict(), httplimit.WithDenied(answerDenied),
		httplimit.WithSendTimeout(0))
	g.limited = limit(http.HandlerFunc(g.forward))
	return g, nil
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newRequestState(g, w, r)
	defer x.end()
	if patience := x.settings.BodyTimeout; r.ProtoMajor == 1 && r.ContentLength != 0 && patience > 0 {
		// Limit the time for reading, because the server also reads the bodies of requests that are
		// not forwarded. Ignore the error, because some writers do not support deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(x.began.Add(patience))
	}
	if wrong := ambiguity(r, x.settings.PassUnusualPaths); wrong != nil {
		x.answer(x, wrong, nil) // the request is neither charged nor refunded
	} else {
		g.limited.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), stateKey{}, x)))
	}
	x.returned = true
}

// Close closes upgraded connections, waits for their handlers and closes idle connections to
// upstreams. Call it after Shutdown of the [http.Server], which does not track upgraded
// connections.
func (g *Gateway) Close() error {
	g.upgraded.close()
	g.transports.closeIdle()
	return nil
}

func answerDenied(w http.ResponseWriter, r *http.Request, d *httplimit.Denial) {
	x := stateOf(r.Context())
	x.verdict, x.limited, x.policy = d.Verdict, true, d.Policy
	d.Answer(w, r)
}

func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	x := stateOf(r.Context())
	x.verdict, _ = httplimit.FromContext(r.Context())
	x.fields = maps.Clone(w.Header())
	x.settings = g.settingsOf(x.verdict.Set) // the set may have been replaced since the request arrived
	x.route = x.settings.routes.find(r.Host, r.URL)
	switch {
	case r.Method == http.MethodConnect:
		x.answer(w, &methodProblem, nil)
	case x.route == nil:
		x.answer(w, &routeProblem, nil)
	case x.settings.MaxBody > 0 && r.ContentLength > x.settings.MaxBody:
		x.answer(w, &sizeProblem, nil)
	default:
		x.forwarded = w
		x.watchBody(r)
		g.proxy.ServeHTTP(w, r)
	}
}

// accept checks the header of a response before the gateway forwards the response. It removes the
// upstream's values of the header fields that the middleware has set, and sets the middleware's
// values again, because forwarding an informational response clears them.
func accept(resp *http.Response) error {
	x := stateOf(resp.Request.Context())
	if resp.StatusCode == http.StatusSwitchingProtocols && !x.upgrade {
		return errUnaskedUpgrade
	}
	h := x.forwarded.Header()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// A server that is shutting down sets "Connection: close", which must not end this
		// connection.
		delete(h, "Connection")
		delete(x.fields, "Connection")
	}
	for name := range x.fields {
		delete(resp.Header, name)
	}
	maps.Copy(h, x.fields)
	if _, ok := resp.Header["Content-Type"]; !ok {
		h["Content-Type"] = nil // otherwise, net/http would guess a type
	}
	if len(resp.Trailer) > 0 && x.request.ProtoMajor == 1 && x.request.Method != http.MethodHead {
		// HTTP/1 allows trailers only after a chunked body, which has no Content-Length.
		delete(resp.Header, "Content-Length")
	}
	return nil
}

var errUnaskedUpgrade = errors.New("gateway: the upstream switched protocols without being asked")
