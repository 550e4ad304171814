package grpclimit

import "context"

// ServerOption configures a server interceptor.
type ServerOption interface{ applyToServer(*server) }

// ClientOption configures a client interceptor.
type ClientOption interface{ applyToClient(*client) }

type serverOption func(*server)

func (o serverOption) applyToServer(s *server) { o(s) }

// WithClaims sets a function that returns the value of a claim about the caller, such as "user" or
// "plan", or "" if the application does not know it. It is called while a call is judged, with the
// context from the interceptors before this one. By default there are no claims.
func WithClaims(claims func(ctx context.Context, name string) string) ServerOption {
	return serverOption(func(s *server) { s.claims = claims })
}

// WithUsage adds the state of the limit that matters most to the trailer of every limited call:
// "ratelimit-limit", "ratelimit-remaining" and "ratelimit-reset". The last is in seconds from now:
// for a denied call until it has room, for an allowed call until the limit is unused. It is omitted
// for concurrency limits, and if waiting does not help. By default, allowed calls get no trailer,
// which avoids its cost.
//
// The state is in the trailer because a header would turn what gRPC calls a trailers-only response
// into a normal one, which would stop the retries of clients whose call failed for another reason.
func WithUsage() ServerOption {
	return serverOption(func(s *server) { s.usage = true })
}

type perMessage struct{}

func (perMessage) applyToServer(s *server) { s.perMessage = true }
func (perMessage) applyToClient(c *client) { c.perMessage = true }

// PerMessage counts the messages of a stream, as if each were a call: on a server the messages
// received, on a client the messages sent. The first message counts, the opening of the stream does
// not. By default a stream counts once, when it is opened. Unary calls have one message and are not
// affected.
//
// On a server, a denied message ends the stream: its status is that of the denial, whatever the
// handler returns. The effects of an allowed message, such as its place under a concurrency limit
// and settling its cost, end when the next message arrives or the handler returns.
func PerMessage() interface {
	ServerOption
	ClientOption
} {
	return perMessage{}
}
