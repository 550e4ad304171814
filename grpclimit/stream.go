package grpclimit

import (
	"context"
	"net/http"

	"github.com/stint-limiter/stint/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// serveStream is serve for streams.
func serveStream(srv any, stream grpc.ServerStream, handler grpc.StreamHandler, a *account, finish func(policy.Outcome)) error {
	outcome := policy.Outcome{Status: http.StatusInternalServerError} // until it returns
	defer func() { finish(outcome) }()
	ctx := stream.Context()
	if a.key != "" {
		ctx = a.listenIn(ctx)
	}
	err := handler(srv, &accountedStream{stream, ctx, a})
	outcome = a.outcome(err)
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
