package grpclimit

import "context"

// ServerOption sets up a server interceptor.
type ServerOption interface{ applyToServer(*server) }

// ClientOption sets up a client interceptor.
type ClientOption interface{ applyToClient(*client) }

type serverOption func(*server)

func (o serverOption) applyToServer(s *server) { o(s) }

// WithClaims passes what the application knows about the caller: the value of a claim of that name,
// such as "user" or "plan", or "". It is called while a call is judged, with the context that the
// interceptors before this one have made. By default there are none.
func WithClaims(claims func(ctx context.Context, name string) string) ServerOption {
	return serverOption(func(s *server) { s.claims = claims })
}

// WithUsage adds to the trailer of every call that is limited how things stand with the limit that
// matters most: "ratelimit-limit", "ratelimit-remaining" and "ratelimit-reset", the last in seconds
// from now, until a call that is denied has room or, after one that is let through, the limit is
// unused. There is none for concurrency limits, nor if no time helps. By default calls that are let
// through get nothing, which costs nothing.
//
// It is in the trailer because a header would end what gRPC calls a trailers-only answer, and with
// it the retries of clients whose call failed for another reason.
func WithUsage() ServerOption {
	return serverOption(func(s *server) { s.usage = true })
}

type perMessage struct{}

func (perMessage) applyToServer(s *server) { s.perMessage = true }
func (perMessage) applyToClient(c *client) { c.perMessage = true }

// PerMessage makes streams count by their messages, as if each were a call: on a server those that
// are received, on a client those that are sent. The first one counts, the opening of the stream
// does not. By default a stream counts once, when it is opened. Unary calls have one message and do
// not change.
//
// On a server a message that is denied ends the stream: its status is that of the denial, whatever
// the handler returns. What follows a message that is let through, such as its place under a
// concurrency limit or settling its cost, ends when the next one arrives or the handler returns.
func PerMessage() interface {
	ServerOption
	ClientOption
} {
	return perMessage{}
}
