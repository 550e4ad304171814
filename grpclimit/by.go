package grpclimit

import (
	"context"
	"math/rand/v2"

	"google.golang.org/grpc"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
)

// KeyFunc returns the key of a call from its context, which earlier interceptors may have extended.
// Calls with equal keys are counted together. By convention a key is "type:identifier". A call with
// the key "" is not counted: it fails with codes.Internal, so that calls do not share a count by
// accident.
type KeyFunc func(context.Context) string

// By returns interceptors that limit calls per key, without a configuration:
//
//	unary, stream := grpclimit.By(userOf, stint.PerMinute(100))
//	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
//
// Each call costs one unit of every limit, unless [WithCost] sets another cost; a stream is charged
// once, when it is opened. Under a concurrency limit ([stint.Concurrency]), a call keeps its place
// until the handler returns. Health checks and reflection are calls like any other. To exempt some
// calls, write an interceptor that passes only the other calls to these interceptors.
//
// The options are limits (at least one, unless [WithLimits] gives them), other options of package
// stint, such as [stint.WithBans], and options of this package that are a [ByOption]. Without
// [WithStore], the calls are counted in the memory of this process, in at most 64 MiB, separately
// for each use of By. Calls that cannot be decided are logged at ERROR, at most five per second, to
// the logger of [stint.WithLogger] or, without it, to slog.Default().
//
// By panics if an argument is invalid, and lists every mistake. [NewBy] returns an error instead.
func By(key KeyFunc, options ...ByOption) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	unary, stream, err := NewBy(key, options...)
	middleware.Must("grpclimit: By", err)
	return unary, stream
}

// NewBy is like [By] for arguments that come from a configuration: it returns all mistakes in one
// [*stint.InvalidError] instead of panicking.
func NewBy(key KeyFunc, options ...ByOption) (
	grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor, error) {
	b := &by{keyed: &keyed{key: key}}
	b.Check(key != nil, "the key is nil; want one such as ClientIP()")
	for _, o := range options {
		if own, ok := o.(byOption); ok {
			own.set(b)
			continue
		}
		general, _ := o.(stint.Option) // if this is nil, stint.New reports it
		b.Options = append(b.Options, general)
	}
	b.Parts = []middleware.Part{b.Part}
	var err error
	if b.Limits, err = middleware.New(b.Config); err != nil {
		return nil, nil, err
	}
	s := &server{guard: b.keyed, random: rand.Float64}
	return s.unary(), s.stream(serveStream), nil
}

// ByIP is [By] with the key [ClientIP] without trusted proxies:
//
//	unary, stream := grpclimit.ByIP(stint.PerMinute(100))
//
// Behind a proxy or a load balancer, all calls come from the proxy's address. In that case, use By
// with a ClientIP that lists the proxies to trust.
func ByIP(options ...ByOption) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	return By(ClientIP(), options...)
}

// ClientIP distinguishes clients by their address, like httplimit.ClientIP. It uses only the part
// of the metadata "x-forwarded-for" that trusted proxies wrote. A call from a peer without an
// address, as on a Unix socket, has no key unless "unix" is trusted and the peer names the client
// in that metadata.
//
// ClientIP panics if an entry is invalid. [NewClientIP] returns an error instead.
func ClientIP(trusted ...string) KeyFunc {
	key, err := NewClientIP(trusted...)
	middleware.Must("grpclimit: ClientIP", err)
	return key
}

// NewClientIP is like [ClientIP] for proxies that come from a configuration: it returns all invalid
// entries in one [*stint.InvalidError] instead of panicking.
func NewClientIP(trusted ...string) (KeyFunc, error) {
	key, err := clientip.Key(trusted)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) string { return key(peerOf(ctx), fields{ctx}) }, nil
}

// ByOption configures [By] and [ByIP]. Limits and all other options of package stint are ByOptions.
type ByOption = stint.GRPCOption

// WithStore sets the store in which [By] counts, such as one opened by package stores. In one
// store, uses of By with the same name ([WithName]), or with no name and the same limits, count
// calls with equal keys together. This applies across processes, and to httplimit.By too. To keep
// counts when the limits change, set a name.
func WithStore(store stint.Store) ByOption {
	return byOption{set: func(b *by) { b.Store, b.Stored = store, true }}
}

// WithName sets the name of the limits of [By]. It may contain letters, digits and "_-.". In a
// shared store ([WithStore]), the name is also the scope in which calls are counted.
func WithName(name string) ByOption {
	return byOption{set: func(b *by) {
		b.Name = name
		b.Check(syntax.IsName(name), "WithName(%q): want letters, digits and _-.", name)
	}}
}

// WithLimits gives each call under [By] its own limits, such as those of the customer. If the
// function returns none, the limits passed to By apply. If By has no limits either, the call is not
// limited. In a shared store, the limits need a name ([WithName]). The function is called for every
// call, with the context from earlier interceptors. A call with invalid limits fails with
// codes.Internal.
func WithLimits(limits func(ctx context.Context) []stint.Limit) ByOption {
	return byOption{set: func(b *by) {
		b.limits, b.Varies = limits, limits != nil
		b.Check(limits != nil, "WithLimits: the function is nil")
	}}
}

// WithCost sets the cost of a call under [By], which is the number of units that the call takes
// from every limit; the default is one. A cost of 0 charges nothing. A call with a negative cost
// fails with codes.Internal.
func WithCost(cost func(ctx context.Context) int64) ByOption {
	return byOption{set: func(b *by) {
		b.cost = cost
		b.Check(cost != nil, "WithCost: the function is nil")
	}}
}

type by struct {
	*keyed
	middleware.Config
	middleware.Part
}

// byOption is an option of [By]. The embedded interface is nil: it only makes the type a
// [ByOption].
type byOption struct {
	ByOption
	set func(*by)
}

// ErrNoKey is the error of a call without a key. An interceptor that runs before those of [By] can
// detect it with errors.Is. The call fails with codes.Internal.
var ErrNoKey = middleware.ErrNoKey

// keyed decides calls by key and limits, without a guard.
type keyed struct {
	*middleware.Limits
	key KeyFunc
	// limits returns the limits of a call. If it is nil or returns none, the limits passed to By
	// apply.
	limits func(context.Context) []stint.Limit
	// cost returns the cost of a call. If it is nil, the cost is 1.
	cost func(context.Context) int64
}

// Decide charges the call to its key.
func (k *keyed) Decide(ctx context.Context, _ *policy.Input, v *policy.Verdict) error {
	ask := [1]middleware.Ask{{Key: k.key(ctx), Cost: 1}}
	if ask[0].Key != "" && k.limits != nil {
		ask[0].Limits = k.limits(ctx)
	}
	if ask[0].Key != "" && k.cost != nil {
		ask[0].Cost = k.cost(ctx)
	}
	return k.Limits.Decide(ctx, ask[:], v)
}
