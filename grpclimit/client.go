package grpclimit

import (
	"context"
	"slices"

	"github.com/stint-limiter/stint/outbound"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

type client struct {
	api        *outbound.Client
	perMessage bool
}

func newClient(api *outbound.Client, perMessage bool) *client {
	if api == nil {
		panic("grpclimit: the API is nil; want one from an outbound.Registry")
	}
	return &client{api: api, perMessage: perMessage}
}

// UnaryClientInterceptor returns an interceptor for calls to a third-party service. It panics if
// api is nil.
//
// Every call waits for its turn, as in [outbound.Client.Wait]. A call that gets no turn is not
// made. Its error wraps the error of Wait and has a gRPC status: ResourceExhausted for a denial,
// the context's status if the context ended, and FailedPrecondition if the API is no longer
// registered. If the store failed, the status is Unavailable, even under [stint.FailDeny].
//
// When the service answers ResourceExhausted or Unavailable and gives a delay, in a RetryInfo or a
// pushback, all processes that share the store pause for that long. If it gives both, the longer
// one applies. After a ResourceExhausted without a delay, the processes pause for a second. They
// also do so after a message that was too large, because gRPC uses the same code for it. A negative
// pushback causes no pause.
func UnaryClientInterceptor(api *outbound.Client) grpc.UnaryClientInterceptor {
	c := newClient(api, false)
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		if err := c.wait(ctx); err != nil {
			return err
		}
		var trailer metadata.MD
		err := invoke(ctx, method, req, reply, conn, append(slices.Clip(opts), grpc.Trailer(&trailer))...)
		c.pause(err, trailer)
		return err
	}
}

// StreamClientInterceptor is like [UnaryClientInterceptor], but for streams. A stream waits once,
// when it is opened. StreamClientInterceptor panics if api is nil.
func StreamClientInterceptor(api *outbound.Client) grpc.StreamClientInterceptor {
	return newClient(api, false).stream()
}

// MessageClientInterceptor is like [StreamClientInterceptor], for streams on which messages count:
// each message sent waits for its turn, as if it were a call. Opening a stream does not count. A
// message that gets no turn ends its stream.
func MessageClientInterceptor(api *outbound.Client) grpc.StreamClientInterceptor {
	return newClient(api, true).stream()
}

func (c *client) stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if !c.perMessage {
			if err := c.wait(ctx); err != nil {
				return nil, err
			}
		}
		ctx, abort := context.WithCancel(ctx)
		stream, err := open(ctx, desc, conn, method, opts...)
		if err != nil {
			abort()
			c.pause(err, nil)
			return nil, err
		}
		return &clientStream{ClientStream: stream, client: c, ctx: ctx, abort: abort, oneAnswer: !desc.ServerStreams},
			nil
	}
}

// clientStream is a stream to a service that may ask clients to slow down.
type clientStream struct {
	grpc.ClientStream
	client *client
	// ctx is the context of the stream. It is kept here because calling the stream's own Context
	// method would disable gRPC's retries.
	ctx       context.Context
	abort     context.CancelFunc
	oneAnswer bool // whether the service sends only one message
	// paused reports whether the final status was handled. It needs no lock, because gRPC forbids
	// concurrent calls of RecvMsg.
	paused bool
}

// SendMsg sends a message. If messages count, it first waits for a turn. An error ends the stream,
// as gRPC requires.
func (s *clientStream) SendMsg(m any) error {
	if s.client.perMessage {
		if err := s.client.wait(s.ctx); err != nil {
			s.abort()
			return err
		}
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg receives a message, and handles the status that ends the stream.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil && !s.paused {
		s.paused = true
		s.client.pause(err, s.Trailer())
	}
	if err != nil || s.oneAnswer {
		s.abort() // the stream has ended: free its context
	}
	return err
}
