package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

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
