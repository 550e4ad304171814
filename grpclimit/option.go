package grpclimit

import "context"

// GuardOption configures the interceptors in which a guard decides calls: [UnaryServerInterceptor],
// [StreamServerInterceptor] and [MessageServerInterceptor].
type GuardOption interface{ applyToGuard(*server) }

type guardOption func(*server)

func (o guardOption) applyToGuard(s *server) { o(s) }

// WithClaims sets a function that returns the value of a claim about the caller, such as "user" or
// "plan". It returns "" for a claim that the application does not know. The function is called
// while a call is decided, with the context from earlier interceptors. By default there are no
// claims.
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
