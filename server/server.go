package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/server/api"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

// Listener names one of the listeners of a server. [Config] has their addresses.
type Listener string

const (
	HTTP    Listener = "HTTP"
	GRPC    Listener = "gRPC"
	Admin   Listener = "admin"
	Metrics Listener = "metrics"
)

// Server is a daemon. Its methods are safe for concurrent use. A server can be started only once.
type Server struct {
	c        Config
	timeouts timeouts

	// Set by New.
	config      *config.Config // as read by New; the guard has the policies in force
	rules       *envoyrls.Config
	webhooks    []observe.Webhook
	apiTokens   *tokens
	envoyTokens *tokens
	adminTokens *tokens
	certificate *certificates
	health      *healthState

	// Bounded sets for gRPC callers without a token: connections that have made no call, calls to
	// the health service that are waiting for their messages, and streams of the health service.
	newConns, pendingCalls, watches boundedSet

	// Set only by Start.
	monitor    *observe.Monitor
	store      stint.Store
	storeName  string
	shared     sharedStore // nil for a store in memory
	overrides  *overrides.Table
	guard      *policy.Guard
	apis       *outbound.Registry
	api        *api.API          // nil without the JSON API
	envoy      *envoyrls.Service // nil without rules
	envoyStats *envoyrls.Stats   // nil unless enabled
	sources    []source
	addresses  map[Listener]net.Addr
	undo       undo

	starting sync.Once
	stopping sync.Once
	started  atomic.Bool   // whether Start has succeeded
	stopped  chan struct{} // closed when Stop has ended everything
	failed   chan error    // the first failure of a listener
	stopErr  error         // the result of Stop; read it only after stopped is closed
}

// New reads all files and checks everything that can be checked without a network. The error is one
// of these: a [*stint.InvalidError] that lists every mistake in c, each with the name of its field;
// a [*config.Error] about the policies; or an error about another file.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		c:            c,
		timeouts:     defaultTimeouts(),
		health:       newHealth("ratelimit", envoyrls.ServiceName),
		newConns:     boundedSet{most: maxNewConns},
		pendingCalls: boundedSet{most: maxPendingCalls},
		watches:      boundedSet{most: maxWatches},
		addresses:    map[Listener]net.Addr{},
		stopped:      make(chan struct{}),
		failed:       make(chan error, 1),
	}
	var err error
	if s.config, err = c.load(); err != nil {
		return nil, err
	}
	if s.webhooks, err = readWebhooks(s.config, c.Logger); err != nil {
		return nil, err
	}
	if x := c.Envoy.XDS; x != nil {
		s.health.missing++ // the first rules must arrive
		s.health.healthy = x.Healthy
	}
	if c.Envoy.Rules != "" {
		if s.rules, err = envoyrls.Load(c.Envoy.Rules, c.Envoy.MergeDomains); err != nil {
			return nil, err
		}
	}
	if s.certificate, err = newCertificates(&c, s.reloaded("certificate")); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		tokens     **tokens
		name, path string
	}{
		{&s.apiTokens, "API tokens", c.APITokens},
		{&s.envoyTokens, "Envoy tokens", c.Envoy.Tokens},
		{&s.adminTokens, adminTokenName, c.AdminTokens},
	} {
		if *of.tokens, err = newTokens(of.name, of.path, c.Logger, s.reloaded(of.name)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

var (
	errStarted    = errors.New("server: already started")
	errNotStarted = errors.New("server: not started yet")
)

// Start connects to the store and opens the listeners. It returns once the server accepts requests.
// If it returns an error, nothing is left running, and Stop does nothing. The context applies only
// to starting.
func (s *Server) Start(ctx context.Context) error {
	err := errStarted
	s.starting.Do(func() {
		if err = s.start(ctx); err != nil {
			err = errors.Join(err, s.undo.run(ctx))
			return
		}
		s.started.Store(true)
	})
	return err
}

// start sets everything up in order of dependency. Each step pushes a function that undoes it, so
// that a failed step leaves nothing behind, and Stop undoes everything in reverse order.
func (s *Server) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.openMonitor, s.openStore, s.openGuard,
		s.openOutbound, s.watch, s.listen} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.step()
	return nil
}

// step records one of the events that make the server ready: the server listens, or the first rules
// of Envoy's service have arrived over xDS.
func (s *Server) step() {
	if s.health.happened() {
		s.c.Logger.Info("server: ready", "store", s.storeName, "policies", cmp.Or(s.c.Policies, "built in"))
	}
}

// Addr returns the address of a listener. It returns nil if the listener is disabled or Start has
// not returned yet.
func (s *Server) Addr(name Listener) net.Addr {
	if !s.started.Load() {
		return nil
	}
	return s.addresses[name]
}

// Wait returns when the server has stopped, or when a listener has failed. It returns the
// listener's error, if any. After an error, call Stop.
func (s *Server) Wait() error {
	select {
	case err := <-s.failed:
		return err
	case <-s.stopped:
		return nil
	}
}

// Stop reports that the server is not ready, waits for [Config.Drain], finishes the requests in
// progress and closes everything. When ctx ends, Stop no longer waits for load balancers or
// requests. If the server has not been started, Stop does nothing. Later calls wait until the first
// call returns.
func (s *Server) Stop(ctx context.Context) error {
	if !s.started.Load() {
		return nil
	}
	s.stopping.Do(func() {
		defer close(s.stopped)
		s.health.drain()
		if s.c.Drain > 0 {
			s.c.Logger.Info("server: draining", "for", s.c.Drain)
			select {
			case <-time.After(s.c.Drain):
			case <-ctx.Done():
			}
		}
		s.stopErr = s.undo.run(ctx)
	})
	<-s.stopped
	return s.stopErr
}

// fail makes Wait return err, unless another listener has already failed.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// undo is a stack of cleanup steps: the last one pushed runs first.
type undo struct{ steps []step }

type step struct {
	name string
	do   func(context.Context) error
}

// push adds a step. If the step fails, its error contains name.
func (u *undo) push(name string, do func(context.Context) error) {
	u.steps = append(u.steps, step{name, do})
}

// run runs all steps, even if some of them fail. A second call does nothing.
func (u *undo) run(ctx context.Context) error {
	var errs []error
	for len(u.steps) > 0 {
		last := u.steps[len(u.steps)-1]
		u.steps = u.steps[:len(u.steps)-1]
		if err := last.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("server: ending %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
