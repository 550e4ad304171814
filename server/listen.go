package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/stint-limiter/stint/internal/stall"
)

type timeouts struct {
	// header is the time limit for a request's header to arrive, body for the whole request, and
	// answer for the client to read the answer.
	header, body, answer time.Duration
	// idle is the maximum time that a connection may stay open without a request.
	idle time.Duration
	// alive is how long an HTTP/2 client may be silent before it is pinged, and also the time limit
	// for its reply. A client that stops in the middle of a header cannot reply, and so is
	// disconnected.
	alive time.Duration
	// finish is the time limit for requests in progress when the server stops. While the server
	// stops, silent is the maximum age of a connection on which no request has arrived.
	finish, silent time.Duration
}

func defaultTimeouts() timeouts {
	return timeouts{
		header: 5 * time.Second,
		body:   10 * time.Second,
		answer: 30 * time.Second,
		idle:   2 * time.Minute,
		alive:  4 * time.Second,
		finish: 10 * time.Second,
		silent: time.Second,
	}
}

// maxHeader is the maximum size of a request header in bytes. Over HTTP, larger headers get a 431.
const maxHeader = 64 << 10

type endpoint struct {
	name     Listener
	listener net.Listener // nil until it is open
	serve    func(net.Listener) error
	// newConns holds the connections that have made no call yet. It is nil if their number is not
	// limited.
	newConns *boundedSet
	silent   *silentConns
	// shutdown stops accepting connections. It returns when all requests have been answered or the
	// context ends. After that, close ends the remaining requests.
	shutdown func(context.Context) error
	close    func() error
}

// listen opens all listeners before it starts to serve on any of them. So if one cannot be opened,
// no request is answered.
func (s *Server) listen(ctx context.Context) error {
	var all []endpoint
	for _, of := range []struct {
		name    Listener
		address string
		make    func() (endpoint, error)
	}{
		{HTTP, s.c.HTTP, s.newHTTP}, {GRPC, s.c.GRPC, s.newGRPC},
		{Admin, s.c.Admin, s.newAdmin}, {Metrics, s.c.Metrics, s.newMetrics},
	} {
		if of.address == "" {
			continue
		}
		ep, err := of.make()
		if err == nil {
			ep.name = of.name
			all = append(all, ep)
			err = s.open(ctx, &all[len(all)-1], of.address)
		}
		if err != nil {
			for i := range all {
				all[i].discard()
			}
			return fmt.Errorf("server: %s on %s: %w", of.name, of.address, err)
		}
	}
	s.serve(all)
	return nil
}

func (s *Server) open(ctx context.Context, ep *endpoint, address string) error {
	opened, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	tcp := opened.(*net.TCPListener)
	ep.listener = &connections{
		TCPListener: tcp, name: ep.name, most: int64(s.c.MaxConnections),
		newConns: ep.newConns, silent: ep.silent, logger: s.c.Logger,
	}
	if ep.name == Admin && s.adminTokens == nil && !tcp.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return errAdminExposed
	}
	return nil
}

// discard closes an endpoint that is not serving yet. It has no clients, so errors do not matter.
func (ep *endpoint) discard() {
	if ep.listener != nil {
		_ = ep.listener.Close()
	}
	_ = ep.close()
}

var errAdminExposed = errors.New("other machines can reach this address, and there are no admin tokens; " +
	"listen on 127.0.0.1, or set Config.AdminTokens")

func (s *Server) serve(all []endpoint) {
	var work sync.WaitGroup
	for _, ep := range all {
		s.addresses[ep.name] = ep.listener.Addr()
		s.c.Logger.Info("server: listening", "listener", ep.name, "address", ep.listener.Addr().String())
		work.Go(func() {
			if err := ep.serve(ep.listener); err != nil && !errors.Is(err, http.ErrServerClosed) &&
				!errors.Is(err, grpc.ErrServerStopped) {
				s.fail(fmt.Errorf("server: %s: %w", ep.name, err))
			}
		})
	}
	s.undo.push("the listeners", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, s.timeouts.finish)
		defer cancel()
		err := s.shutdown(ctx, all)
		work.Wait()
		return err
	})
}

// shutdown shuts down all listeners at the same time. Otherwise, some listeners would accept new
// requests while the server waits for requests on another listener to finish.
func (s *Server) shutdown(ctx context.Context, all []endpoint) error {
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, ep := range all {
		work.Go(func() {
			ep.silent.end(s.timeouts.silent)
			if ep.shutdown(ctx) != nil {
				s.c.Logger.Warn("server: cut off requests that did not end in time", "listener", ep.name)
				errs[i] = ep.close()
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// newHTTPServer returns an endpoint that serves h over HTTP, with timeouts. If streams is true,
// there is no time limit for a whole request, so h must set the deadlines of blocking operations.
func (s *Server) newHTTPServer(h http.Handler, streams bool) endpoint {
	srv := &http.Server{
		Handler:           s.recovered(s.health.closeWhileDraining(h)),
		ReadHeaderTimeout: s.timeouts.header,
		ReadTimeout:       s.timeouts.body,
		WriteTimeout:      s.timeouts.answer,
		IdleTimeout:       s.timeouts.idle,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{SendPingTimeout: s.timeouts.alive, PingTimeout: s.timeouts.alive,
			WriteByteTimeout: s.timeouts.answer},
		ErrorLog: slog.NewLogLogger(s.c.Logger.Handler(), slog.LevelDebug), // clients cause these errors
	}
	if streams {
		srv.ReadTimeout = 0                       // keep the WriteTimeout for net/http's own responses
		srv.HTTP2.PingTimeout = s.timeouts.answer // a ping waits behind data that a slow client has yet to read
		srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			stall.LimitUnsent(c)
			return ctx
		}
	}
	silent := &silentConns{since: map[net.Conn]time.Time{}}
	srv.ConnState = silent.track
	serve := srv.Serve
	if s.certificate != nil && !s.c.TLSOnlyGRPC {
		srv.TLSConfig = s.certificate.listen()
		serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	}
	return endpoint{serve: serve, silent: silent, shutdown: srv.Shutdown, close: srv.Close}
}

// recovered returns a handler that calls next. If next panics, the handler logs the panic and
// aborts the response. Other requests are not affected.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch problem := recover(); problem {
			case nil:
			case http.ErrAbortHandler:
				panic(problem) // net/http recovers from this panic and aborts the response
			default:
				s.panicked(r.Method+" "+r.Pattern, problem)
				// Part of the response may have been written, so do not reuse the connection.
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// panicked logs a panic that occurred in a request. The parameter what is the route or the gRPC
// method of the request. It must not contain text from the client, which is not safe to log.
func (s *Server) panicked(what string, problem any) {
	s.c.Logger.Error("server: defect: a request panicked", "request", what, "panic", problem, "stack",
		string(debug.Stack()))
}
