package grpclimit

import (
	"context"
	"math/rand/v2"

	"google.golang.org/grpc"

	"github.com/stint-limiter/stint/policy"
)

type server struct {
	guard   decider
	claims  func(ctx context.Context, name string) string
	trailer bool           // whether to add the state of a limit to the trailer
	random  func() float64 // returns numbers in [0, 1)
}

// GuardOption configures the interceptors in which a guard decides calls: [UnaryServerInterceptor],
// [StreamServerInterceptor] and [MessageServerInterceptor].
type GuardOption interface{ applyToGuard(*server) }

type guardOption func(*server)

func (o guardOption) applyToGuard(s *server) { o(s) }

// WithClaims sets a function that returns the value of a claim about the caller, such as "user" or
// "plan", or "" if the application does not know it. The function is called while a call is
// decided, with the context from earlier interceptors. By default there are no claims.
func WithClaims(claims func(ctx context.Context, name string) string) GuardOption {
	return guardOption(func(s *server) { s.claims = claims })
}

// WithTrailer adds the state of the limit that matters most to the trailer of every limited call:
// "ratelimit-limit", "ratelimit-remaining" and "ratelimit-reset". The last one is a number of
// seconds from now: for a denied call, until the limit has room; for an allowed call, until the
// limit is unused. It is omitted for concurrency limits, and if waiting does not help. By default,
// allowed calls get no trailer, which avoids its cost.
//
// The state is in the trailer because a gRPC client does not retry a failed call once it has
// received a header. With the state in a header, calls that fail for other reasons would not be
// retried either.
func WithTrailer() GuardOption {
	return guardOption(func(s *server) { s.trailer = true })
}

// decider decides calls. It is a [*policy.Guard] or a [*keyed].
type decider interface {
	Decide(ctx context.Context, in *policy.Input, v *policy.Verdict) error
	Follow(ctx context.Context, v *policy.Verdict) func(policy.Outcome)
}

func newServer(guard *policy.Guard, options []GuardOption) *server {
	if guard == nil {
		panic("grpclimit: the guard is nil; want one from policy.NewGuard")
	}
	s := &server{guard: guard, random: rand.Float64}
	for _, o := range options {
		if o == nil {
			panic("grpclimit: an option is nil; want one from package grpclimit")
		}
		o.applyToGuard(s)
	}
	return s
}

// UnaryServerInterceptor returns an interceptor in which a guard decides every unary call. It
// panics if guard or an option is nil.
//
// If a policy settles by a response header, the handler sets the cost in metadata of that name,
// with [grpc.SetHeader] or [grpc.SetTrailer]. The last value counts. The metadata is removed from
// the answer. Under such a policy, [grpc.SetSendCompressor] does not work, because it accepts only
// gRPC's own stream. If a policy settles by bytes, it counts the bytes of the encoded protobuf
// message before compression. An answer is not sent until the store has recorded the outcome of the
// call.
func UnaryServerInterceptor(guard *policy.Guard, options ...GuardOption) grpc.UnaryServerInterceptor {
	return newServer(guard, options).unary()
}

func (s *server) unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		c := s.newCall(ctx, info.FullMethod)
		trailer, err := c.judge()
		if trailer != nil {
			_ = grpc.SetTrailer(ctx, trailer) // fails only if the client has gone away
		}
		if err != nil {
			return nil, err
		}
		finish := s.guard.Follow(ctx, c.verdict)
		if finish == nil {
			return handler(ctx, req)
		}
		var resp any
		a := newAccount(c.verdict)
		err = a.serve(ctx, finish, func(ctx context.Context) error {
			var err error
			if resp, err = handler(ctx, req); err == nil {
				a.sent(resp)
			}
			return err
		})
		return resp, err
	}
}

// serve calls a handler, and then calls finish once with the outcome, even if the handler panics.
func (a *account) serve(ctx context.Context, finish func(policy.Outcome), handle func(context.Context) error) error {
	within := ctx
	if a.key != "" {
		within = a.listenIn(ctx)
	}
	err := errPanicked // overwritten unless the handler panics
	defer func() { finish(a.outcome(ctx, err)) }()
	err = handle(within)
	return err
}

// StreamServerInterceptor returns an interceptor in which a guard decides every stream once, when
// it is opened. It panics if guard or an option is nil.
//
// A place under a concurrency limit is held until the handler returns. Costs are settled as in
// [UnaryServerInterceptor].
func StreamServerInterceptor(guard *policy.Guard, options ...GuardOption) grpc.StreamServerInterceptor {
	return newServer(guard, options).stream(serveStream)
}

// MessageServerInterceptor is like [StreamServerInterceptor], for streams on which messages count:
// a guard decides each message received, as if it were a call. Opening a stream does not count.
//
// A denied message ends the stream with the status of the denial, whatever the handler returns.
// When the next message arrives or the handler returns, an allowed message gives up its place under
// a concurrency limit, and its cost is settled. [grpc.SetSendCompressor] does not work on these
// streams.
func MessageServerInterceptor(guard *policy.Guard, options ...GuardOption) grpc.StreamServerInterceptor {
	return newServer(guard, options).stream(serveMessages)
}

func (s *server) stream(
	serve func(*call, any, grpc.ServerStream, grpc.StreamHandler) error) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return serve(s.newCall(stream.Context(), info.FullMethod), srv, stream, handler)
	}
}

// serveStream checks a stream, and calls its handler if it is allowed.
func serveStream(c *call, srv any, stream grpc.ServerStream, handler grpc.StreamHandler) error {
	trailer, err := c.judge()
	stream.SetTrailer(trailer)
	if err != nil {
		return err
	}
	finish := c.server.guard.Follow(c.ctx, c.verdict)
	if finish == nil {
		return handler(srv, stream)
	}
	a := newAccount(c.verdict)
	return a.serve(c.ctx, finish, func(ctx context.Context) error {
		return handler(srv, &accountedStream{stream, ctx, a})
	})
}
