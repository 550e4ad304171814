package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/server/envoyrls"
)

// The names of the listeners, for [Server.Addr].
const (
	HTTP  = "HTTP"
	GRPC  = "gRPC"
	Admin = "admin"
)

// Server is a daemon. Its methods are safe for concurrent use, but it is started once and not again.
type Server struct {
	c      Config
	bounds bounds

	// What New reads.
	set         *policy.Set // as it was at the start; the guard has the one in force
	rules       *envoyrls.Config
	chargeKey   []byte  // nil without one
	callers     *tokens // of the API
	proxies     *tokens // of Envoy's service
	operators   *tokens // of the admin listener
	certificate *certificates
	vitals      *vitals

	// What gRPC has without a token: connections without a call, and calls of the health service whose message has not
	// arrived, or that are streams.
	strangers, awaited, watches newest

	// What Start makes. Nothing else writes these.
	monitor   *observe.Monitor
	store     stint.Store
	storeName string
	stack     *resilience.Stack // nil for a store in memory
	guard     *policy.Guard
	envoy     *envoyrls.Service // nil without rules
	sources   []source
	addresses map[string]net.Addr
	undo      undo

	starting sync.Once
	stopping sync.Once
	started  chan struct{} // closed when Start has succeeded
	stopped  chan struct{} // closed when Stop has ended everything
	failed   chan error    // the first failure of a listener
	stopErr  error         // readable when stopped is closed
}

// New reads all files and checks everything that can be checked without a network. An error is for whoever wrote the
// configuration: a [*policy.ConfigError], that of a file, or what is wrong with c.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		c:         c,
		bounds:    usualBounds(),
		vitals:    newVitals("ratelimit", envoyrls.ServiceName),
		strangers: newest{most: maxStrangers},
		awaited:   newest{most: maxAwaited},
		watches:   newest{most: maxWatches},
		addresses: map[string]net.Addr{},
		started:   make(chan struct{}),
		stopped:   make(chan struct{}),
		failed:    make(chan error, 1),
	}
	var err error
	if s.set, err = c.load(); err != nil {
		return nil, err
	}
	if c.Envoy != "" {
		if s.rules, err = envoyrls.Load(c.Envoy, envoyrls.MergeDomains(c.EnvoyMerge)); err != nil {
			return nil, err
		}
	}
	if s.certificate, err = newCertificates(c.TLS, c.Logger, s.reloaded("certificate")); err != nil {
		return nil, err
	}
	if s.chargeKey, err = c.API.chargeKey(c.Logger); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		tokens     **tokens
		name, path string
	}{
		{&s.callers, "API tokens", c.API.Tokens},
		{&s.proxies, "Envoy tokens", c.EnvoyTokens},
		{&s.operators, adminTokens, c.AdminTokens},
	} {
		if *of.tokens, err = newTokens(of.name, of.path, c.Logger, s.reloaded(of.name)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

var errStarted = errors.New("server: it has been started before")

// Start connects to the store and listens. It returns when requests are served, or with the reason that they cannot
// be; then there is nothing to stop. The context is for starting only.
func (s *Server) Start(ctx context.Context) error {
	err := errStarted
	s.starting.Do(func() {
		if err = s.start(ctx); err != nil {
			err = errors.Join(err, s.undo.run(ctx))
			return
		}
		close(s.started)
	})
	return err
}

// start sets everything up in the order in which one needs the other. Each step pushes what undoes it, so that a step that
// fails leaves nothing behind, and that the end is the reverse of the beginning.
func (s *Server) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.openMonitor, s.openStore, s.openGuard, s.watch, s.listen} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.vitals.enter(ready)
	s.c.Logger.Info("server: ready", "store", s.storeName, "policies", cmp.Or(s.c.Policies, "built in"))
	return nil
}

// Addr returns where a listener is: that of [HTTP], [GRPC] or [Admin]. It is nil if there is none, and before Start.
func (s *Server) Addr(name string) net.Addr {
	select {
	case <-s.started:
		return s.addresses[name]
	default:
		return nil
	}
}

// Wait returns when the server has been stopped, with nil, or when a listener has failed, with its error: the server is
// then to be stopped.
func (s *Server) Wait() error {
	select {
	case err := <-s.failed:
		return err
	case <-s.stopped:
		return nil
	}
}

// Stop says that the server is not ready, waits for [Config.Drain], finishes the requests under way and closes
// everything. When the context ends it waits no longer, neither for load balancers nor for requests. A server that has
// not been started has nothing to stop. Calls after the first return when that does.
func (s *Server) Stop(ctx context.Context) error {
	select {
	case <-s.started:
	default:
		return nil
	}
	s.stopping.Do(func() {
		defer close(s.stopped)
		s.vitals.enter(draining)
		if s.c.Drain > 0 {
			s.c.Logger.Info("server: draining", "for", s.c.Drain)
			pause(ctx, s.c.Drain)
		}
		s.stopErr = s.undo.run(ctx)
	})
	<-s.stopped
	return s.stopErr
}

// fail makes Wait return, if this is the first failure.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}
