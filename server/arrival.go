package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/tap"
)

// arrivalKey is that of the timer of a stream whose first message is awaited.
type arrivalKey struct{}

// awaitMessage ends calls whose message does not arrive in time. gRPC itself waits for as long as the client answers
// pings. A call has to be over in that time as well; a stream, which the health service has, only to begin.
func (s *Server) awaitMessage(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != healthpb.Health_Watch_FullMethodName {
		if end, ok := ctx.Deadline(); ok && time.Until(end) <= s.bounds.body { // Envoy's calls have one
			return ctx, nil
		}
		within, cancel := context.WithTimeout(ctx, s.bounds.body)
		_ = cancel // gRPC ends the context that this one ends with
		return within, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(s.bounds.body, cancel)
	context.AfterFunc(ctx, func() { timer.Stop() })
	return context.WithValue(ctx, arrivalKey{}, timer), nil
}

// untilEnd ends streams with the context. Those of the health service, which alone has any, go on for as long as a client
// likes: the server would wait for them in vain.
func untilEnd(end context.Context) grpc.StreamServerInterceptor {
	return func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(end, cancel)()
		return next(service, &endingStream{stream, ctx})
	}
}

type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (s *endingStream) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream]. What has begun may go on.
func (s *endingStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if timer, ok := s.ctx.Value(arrivalKey{}).(*time.Timer); ok {
		timer.Stop()
	}
	return err
}
