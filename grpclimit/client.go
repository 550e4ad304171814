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

func newClient(api *outbound.Client, options []ClientOption) *client {
	if api == nil {
		panic("grpclimit: the API is nil; want one of an outbound.Registry")
	}
	c := &client{api: api}
	for _, o := range options {
		o.applyToClient(c)
	}
	return c
}

// UnaryClientInterceptor returns an interceptor for calls to somebody else's service. It panics if
// there is no API.
//
// Every call waits for its turn, as [outbound.Client.Wait] does. One that gets none is not made:
// its error is that of Wait, for [errors.As], with the status ResourceExhausted for a denial, that
// of the context if it ended, FailedPrecondition if the API is no longer registered, and
// Unavailable if the store failed, under [stint.FailDeny] too.
//
// When the service answers ResourceExhausted or Unavailable and says for how long, in a RetryInfo
// or a pushback, all processes that share the store pause that long; the longer of the two counts.
// After a bare ResourceExhausted they pause for a second, also if it was a message that was too
// large: gRPC does not tell these apart. A negative pushback asks for no pause.
func UnaryClientInterceptor(api *outbound.Client) grpc.UnaryClientInterceptor {
	c := newClient(api, nil)
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

// StreamClientInterceptor returns an interceptor like [UnaryClientInterceptor] for streams. They
// wait when they are opened or, with [PerMessage], each time that they send. A message that is not
// let through ends its stream.
func StreamClientInterceptor(api *outbound.Client, options ...ClientOption) grpc.StreamClientInterceptor {
	c := newClient(api, options)
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

// clientStream is a stream to a service that may say to slow down.
type clientStream struct {
	grpc.ClientStream
	client    *client
	ctx       context.Context // of the stream; asking the stream for it would end gRPC's retries
	abort     context.CancelFunc
	oneAnswer bool // the first message that is received is the last
	paused    bool // as the status says; RecvMsg is called by one goroutine at a time
}

// SendMsg waits for its turn if messages have one. As gRPC demands, an error ends the stream.
func (s *clientStream) SendMsg(m any) error {
	if s.client.perMessage {
		if err := s.client.wait(s.ctx); err != nil {
			s.abort()
			return err
		}
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg looks at the status that ends the stream.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil && !s.paused {
		s.paused = true
		s.client.pause(err, s.Trailer())
	}
	if err != nil || s.oneAnswer {
		s.abort() // it is over: frees the context
	}
	return err
}
