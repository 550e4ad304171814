package envoyrls

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/callers"
	"github.com/stint-limiter/stint/internal/changes"
	"github.com/stint-limiter/stint/internal/logsample"
	"github.com/stint-limiter/stint/internal/reload"
)

// Service answers Envoy's rate limit requests. It is safe for concurrent use. See [NewService].
type Service struct {
	rlsv3.UnimplementedRateLimitServiceServer

	store     stint.Store
	options   Options
	config    atomic.Pointer[Config]
	exchanges sync.Pool

	amending sync.WaitGroup // work that continues after its request was answered

	complaints, refusals logsample.Sampler

	posts *callers.JSON
}

var _ rlsv3.RateLimitServiceServer = (*Service)(nil)

// NewService returns a service that decides by the configuration, over a store. If config is nil,
// requests fail with UNAVAILABLE until [Service.Swap]. The error is a [*stint.InvalidError] with
// every mistake in the options. When no more requests come, call [Service.Close] to finish the work
// that they have started.
func NewService(store stint.Store, config *Config, o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.fill()
	s := &Service{store: store, options: o, posts: callers.NewJSON(o.Public, "--envoy-token-file", o.Logger)}
	s.exchanges.New = func() any {
		e := &exchange{}
		e.call.reset()
		return e
	}
	if config != nil && o.Stats != nil {
		o.Stats.attach(config)
	}
	s.config.Store(config)
	return s, nil
}

// Swap puts another configuration in force. Requests that are being decided keep the old one.
// Counters belong to descriptors and windows, not to configurations: a changed limit keeps its
// history. Swap returns the changes.
func (s *Service) Swap(config *Config) reload.InForce {
	if s.options.Stats != nil {
		s.options.Stats.attach(config)
	}
	was := s.config.Swap(config)
	if was == nil {
		was = config // the first one is not a change
	}
	return reload.InForce{Fingerprint: changes.Digest([]byte(config.Dump())),
		Changes: changes.Rules(was.observed(s.options.Window), config.observed(s.options.Window))}
}

// Config returns the configuration in force, or nil if there is none yet.
func (s *Service) Config() *Config { return s.config.Load() }

// Close waits at most one second for units that are being given back in the store. Call it after
// all requests have been answered, and before the store is closed.
func (s *Service) Close() error {
	s.amending.Wait()
	return nil
}

// ShouldRateLimit implements [rlsv3.RateLimitServiceServer].
func (s *Service) ShouldRateLimit(ctx context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	e, a := s.exchanges.Get().(*exchange), new(answer)
	defer s.release(e)
	if err := s.respond(ctx, &e.call, r, a); err != nil {
		return nil, err
	}
	return &a.response, nil
}

func (s *Service) respond(ctx context.Context, c *call, r *rlsv3.RateLimitRequest, to *answer) error {
	if err := s.check(r); err != nil {
		return err
	}
	begun := time.Now()
	c.deadline = begun.Add(s.options.Failure.Budget)
	config := s.config.Load()
	if config == nil {
		return status.Error(codes.Unavailable, "stint: no rate limit configuration has arrived yet")
	}
	if err := c.open(config, r, s.options.QuotaMode); err != nil {
		return err
	}
	err := s.decide(ctx, c)
	took := time.Since(begun)
	s.observe(ctx, c, took, err)
	if s.options.Stats != nil {
		s.options.Stats.count(c, took, err)
	}
	if err != nil {
		return failure(ctx, err)
	}
	s.answer(c, r, to)
	return nil
}

func (s *Service) decide(ctx context.Context, c *call) error {
	if s.options.Window != Sliding {
		return s.countApart(ctx, c)
	}
	s.giveBackHits(ctx, c)
	return s.slide(ctx, c)
}

// request returns a request to the store, which has until the deadline to answer it.
func (s *Service) request(deadline time.Time, claims []stint.Claim, mode stint.Mode) stint.Request {
	r := stint.Request{Claims: claims, Mode: mode, Failure: &s.options.Failure}
	// The first request has the whole budget. Treating a request that follows at once the same way
	// saves an allocation.
	if left := time.Until(deadline); left < r.Failure.Budget/16*15 {
		r.Failure = &stint.FailurePolicy{Mode: r.Failure.Mode, Budget: max(left, 1)}
	}
	return r
}

func failure(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return status.FromContextError(ended).Err()
	}
	if _, invalid := errors.AsType[*stint.InvalidError](err); invalid {
		return status.Error(codes.Internal, err.Error())
	}
	return status.Error(codes.Unavailable, "stint: the store cannot decide")
}

// complainEvery is how often failures and refused callers are logged.
const complainEvery = 10 * time.Second

// complain logs a failure of the store that changes no answer. The store's stack logs the call
// itself.
func (s *Service) complain(message string, err error) {
	if unlogged, ok := s.complaints.Allow(1, complainEvery); ok {
		s.options.Logger.Error(message, "cause", err, "unlogged", unlogged)
	}
}
