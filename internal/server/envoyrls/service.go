package envoyrls

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
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

	// amending tracks calls to the store that may continue after their request has been answered.
	amending sync.WaitGroup

	complaints, refusals logsample.Sampler

	posts *callers.JSON
}

var _ rlsv3.RateLimitServiceServer = (*Service)(nil)

// NewService returns a service that applies the limits in config. If config is nil, requests fail
// with UNAVAILABLE until [Service.Swap] is called. The options must be valid. Call [Service.Close]
// after the last request.
func NewService(store stint.Store, config *Config, o Options) *Service {
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
	return s
}

// Swap puts config in force, and returns its fingerprint and the changes. Requests in progress are
// decided by the old configuration. A counter belongs to a descriptor and a window, not to a
// configuration, so a changed limit keeps its history.
func (s *Service) Swap(config *Config) reload.InForce {
	if s.options.Stats != nil {
		s.options.Stats.attach(config)
	}
	was := s.config.Swap(config)
	if was == nil {
		was = config // the first configuration is not a change
	}
	return reload.InForce{Fingerprint: changes.Digest([]byte(config.Dump())),
		Changes: changes.Rules(was.observed(s.options.Window), config.observed(s.options.Window))}
}

// Config returns the configuration in force, or nil if there is none yet.
func (s *Service) Config() *Config { return s.config.Load() }

// LimitsOf returns the limits of a subject, and the path of the limits in the configuration. It
// returns no limits if the subject does not belong to Envoy's service, if the subject is a hash, or
// if the configuration has no limit for its descriptor.
func (s *Service) LimitsOf(subject string) (rule string, limits []stint.Limit) {
	name, descriptor, ok := readSubject(subject)
	config := s.config.Load()
	if !ok || config == nil || config.domains[name] == nil {
		return "", nil
	}
	var scratch []byte
	found, counted := config.domains[name].match(descriptor, nil, &scratch)
	if found == nil || found.unlimited || finishSubject(counted) != subject {
		return "", nil
	}
	return found.key, found.limits[s.options.Window]
}

// Close waits at most one second for calls to the store that continue after their request has been
// answered. Call Close after all requests have been answered, and before the store is closed.
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

// Bounds on a request. Each descriptor may have its own counter, and may need a call to the store.
// Envoy sends at most one descriptor for each rate limit of a route, with one entry for each action
// of the rate limit. Both numbers are determined by Envoy's configuration, never by a client. Envoy
// Gateway allows 64 rules.
const (
	maxDescriptors = 256
	maxEntries     = 4096 // in all descriptors together
)

// check returns an error for a request that the service refuses without considering limits. If
// envoyproxy/ratelimit also refuses the request, the error has the same code and text, so that
// users who search for it find existing advice.
func (s *Service) check(r *rlsv3.RateLimitRequest) error {
	descriptors := r.GetDescriptors()
	switch n := len(descriptors); {
	case r.GetDomain() == "":
		return status.Error(codes.Unknown, "rate limit domain must not be empty")
	case n == 0:
		return status.Error(codes.Unknown, "rate limit descriptor list must not be empty")
	case n > maxDescriptors:
		return status.Errorf(codes.InvalidArgument, "stint: %d descriptors in one request; want at most %d", n, maxDescriptors)
	}
	entries := 0
	for _, d := range descriptors {
		entries += len(d.GetEntries())
	}
	if entries > maxEntries {
		return status.Errorf(codes.InvalidArgument, "stint: %d entries in the descriptors of one request; want at most %d", entries, maxEntries)
	}
	if s.options.NegativeHits {
		return nil
	}
	if i := slices.IndexFunc(descriptors, (*commonv3.RateLimitDescriptor).GetIsNegativeHits); i >= 0 {
		err := status.Errorf(codes.PermissionDenied, "stint: descriptors[%d].is_negative_hits: a server accepts negative hits only if it requires a token or a certificate, "+
			"and this server requires neither (--envoy-token-file, --tls-client-ca)", i)
		if unlogged, ok := s.refusals.Allow(1, complainEvery); ok {
			s.options.Logger.Warn("stint: refused negative hits", "cause", err, "unlogged", unlogged)
		}
		return err
	}
	return nil
}

func (s *Service) decide(ctx context.Context, c *call) error {
	if s.options.Window != Sliding {
		return s.countApart(ctx, c)
	}
	s.giveBackHits(ctx, c)
	return s.slide(ctx, c)
}

// countApart decides a request by fixed windows, which count every descriptor separately.
//
// With StopOverLimit, it first peeks at all descriptors, and takes only if all limits have room.
// The peeks still make refunds, and charge descriptors that are over their limits (see countFixed).
func (s *Service) countApart(ctx context.Context, c *call) error {
	if !s.options.StopOverLimit || len(c.items) == 1 {
		return s.takeApart(ctx, c, anyItem, stint.ModeTake)
	}
	if err := s.takeApart(ctx, c, anyItem, stint.ModePeek); err != nil || c.exceeds() {
		return err
	}
	return s.takeApart(ctx, c, notRefund, stint.ModeTake) // the peeks have made the refunds
}

func notRefund(it *item) bool { return !it.refund }

// exceeds reports whether any item is over its limit, even if that does not deny the request.
func (c *call) exceeds() bool {
	return slices.ContainsFunc(c.items, func(it item) bool { return it.over })
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

// complainEvery is the minimum interval between log records about failures of the store, and
// between log records about refused requests.
const complainEvery = 10 * time.Second

// complain logs a failure of the store that does not change an answer, at most once per
// complainEvery.
func (s *Service) complain(message string, err error) {
	if unlogged, ok := s.complaints.Allow(1, complainEvery); ok {
		s.options.Logger.Error(message, "cause", err, "unlogged", unlogged)
	}
}
