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

// bounds are how long things may take, whoever is at the other end of a connection.
type bounds struct {
	// header is for a request's header to arrive, and body for all of it; answer is until its answer has been taken.
	header, body, answer time.Duration
	// idle is how long a connection may stay without a request.
	idle time.Duration
	// alive is after how long of silence a client of HTTP/2 is asked for a sign of life, and how long it has for that. One
	// that has sent half a header cannot give it.
	alive time.Duration
	// finish is for requests that are under way when the server stops.
	finish time.Duration
}

// usualBounds are those of a server that is not under test.
func usualBounds() bounds {
	return bounds{
		header: 5 * time.Second,
		body:   10 * time.Second,
		answer: 30 * time.Second,
		idle:   2 * time.Minute,
		alive:  4 * time.Second,
		finish: 10 * time.Second,
	}
}

// maxHeader is how large the header of a request may be in bytes: 431 beyond.
const maxHeader = 64 << 10

// served is a listener with what serves it.
type served struct {
	name     string
	listener net.Listener // nil until it is open
	serve    func(net.Listener) error
	// strangers are the listener's connections that have made no call, if there is a bound on them.
	strangers *newest
	// shutdown accepts nothing more and returns when all requests have been answered, or when the context ends, after which
	// close ends those that are left.
	shutdown func(context.Context) error
	close    func() error
}

// listen opens all listeners, and then serves them: if one of them cannot be had, no request has been answered.
func (s *Server) listen(ctx context.Context) error {
	var all []served
	for _, of := range []struct {
		name, address string
		make          func() (served, error)
	}{{HTTP, s.c.HTTP, s.newHTTP}, {GRPC, s.c.GRPC, s.newGRPC}, {Admin, s.c.Admin, s.newAdmin}} {
		if of.address == "" {
			continue
		}
		on, err := of.make()
		if err == nil {
			on.name = of.name
			all = append(all, on)
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

// open opens the listener.
func (s *Server) open(ctx context.Context, on *served, address string) error {
	opened, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	on.listener = &connections{
		TCPListener: opened.(*net.TCPListener), name: on.name, most: int64(s.c.MaxConnections),
		strangers: on.strangers, logger: s.c.Logger,
	}
	if on.name == Admin && s.operators == nil && !isLoopback(on.listener.Addr()) {
		return errAdminExposed
	}
	return nil
}

// discard ends what has not been served. Nobody has heard of it, nor cares for how it ends.
func (on *served) discard() {
	if on.listener != nil {
		_ = on.listener.Close()
	}
	_ = on.close()
}

var errAdminExposed = errors.New("others can reach this address, and there are no tokens for it; " +
	"listen on 127.0.0.1, or have tokens (without --no-admin-token, or with --admin-token-file)")

// isLoopback reports whether only this machine can connect to an address.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// serve serves listeners until the server stops.
func (s *Server) serve(all []served) {
	var work sync.WaitGroup
	for _, on := range all {
		s.addresses[on.name] = on.listener.Addr()
		s.c.Logger.Info("server: listening", "listener", on.name, "address", on.listener.Addr().String())
		work.Go(func() {
			if err := on.serve(on.listener); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
				s.fail(fmt.Errorf("server: %s: %w", on.name, err))
			}
		})
	}
	s.undo.push("the listeners", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, s.bounds.finish)
		defer cancel()
		err := shutdown(ctx, all, s.c.Logger)
		work.Wait()
		return err
	})
}

// shutdown ends all listeners together, so that none takes requests while another one finishes.
func shutdown(ctx context.Context, all []served, logger *slog.Logger) error {
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, on := range all {
		work.Go(func() {
			if on.shutdown(ctx) != nil {
				logger.Warn("server: requests were cut off that did not end in time", "listener", on.name)
				errs[i] = on.close()
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// newHTTPServer returns a server with bounds. Those who stream bound what blocks themselves, and not how long a request may take.
func (s *Server) newHTTPServer(h http.Handler, streams bool) served {
	srv := &http.Server{
		Handler:           s.recovered(s.vitals.farewell(h)),
		ReadHeaderTimeout: s.bounds.header,
		ReadTimeout:       s.bounds.body,
		WriteTimeout:      s.bounds.answer,
		IdleTimeout:       s.bounds.idle,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: s.bounds.alive, PingTimeout: s.bounds.alive, WriteByteTimeout: s.bounds.answer},
		ErrorLog:          slog.NewLogLogger(s.c.Logger.Handler(), slog.LevelDebug), // what strangers send
	}
	if streams {
		srv.ReadTimeout = 0                     // the WriteTimeout is for the answers of net/http's own
		srv.HTTP2.PingTimeout = s.bounds.answer // a ping waits behind what a slow client has yet to take
		srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			stall.LimitUnsent(c)
			return ctx
		}
	}
	serve := srv.Serve
	if s.certificate != nil {
		srv.TLSConfig = s.certificate.listen()
		serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	}
	return served{serve: serve, shutdown: srv.Shutdown, close: srv.Close}
}

// recovered tells of requests that go wrong in a way that they should not have; others are not concerned.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch problem := recover(); problem {
			case nil:
			case http.ErrAbortHandler:
				panic(problem) // meant for the server
			default:
				s.panicked(r.Method+" "+r.Pattern, problem)
				panic(http.ErrAbortHandler) // there may be half an answer: the connection must not be used again
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// panicked tells of a defect. What was asked for is named as the program knows it, not as a client wrote it.
func (s *Server) panicked(what string, problem any) {
	s.c.Logger.Error("server: a defect: a request could not be processed", "request", what, "panic", problem, "stack", string(debug.Stack()))
}
