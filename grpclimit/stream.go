package grpclimit

import (
	"context"

	"github.com/stint-limiter/stint/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// serveStream is serve for streams.
func serveStream(srv any, stream grpc.ServerStream, handler grpc.StreamHandler, a *account,
	finish func(policy.Outcome)) error {
	ctx := stream.Context()
	within := ctx
	if a.key != "" {
		within = a.listenIn(ctx)
	}
	err := errPanicked // until it returns
	defer func() { finish(a.outcome(ctx, err)) }()
	err = handler(srv, &accountedStream{stream, within, a})
	return err
}

// accountedStream is the stream of a handler.
type accountedStream struct {
	grpc.ServerStream
	ctx     context.Context
	account *account
}

func (s *accountedStream) Context() context.Context { return s.ctx }

func (s *accountedStream) SetHeader(md metadata.MD) error {
	return s.ServerStream.SetHeader(s.account.note(md))
}

func (s *accountedStream) SendHeader(md metadata.MD) error {
	return s.ServerStream.SendHeader(s.account.note(md))
}

func (s *accountedStream) SetTrailer(md metadata.MD) { s.ServerStream.SetTrailer(s.account.note(md)) }

func (s *accountedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.account.sent(m)
	}
	return err
}
