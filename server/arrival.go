package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// arrive decides on a call when its header is there and nothing of its message has been kept. Whoever needs a token has to
// show it now. The health service needs none, so its calls have bounds of their own.
func (s *Server) arrive(ctx context.Context, info *tap.Info) (context.Context, error) {
	switch info.FullMethodName {
	case healthpb.Health_Check_FullMethodName:
		return s.arriveUnknown(ctx, nil)
	case healthpb.Health_Watch_FullMethodName:
		return s.arriveUnknown(ctx, &s.watches)
	}
	if err := s.proxies.check(ctx); err != nil {
		return nil, err
	}
	// gRPC itself waits for a message for as long as the client answers pings.
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= s.bounds.body { // Envoy's calls have one
		return ctx, nil
	}
	within, cancel := context.WithTimeout(ctx, s.bounds.body)
	_ = cancel // gRPC ends the context that this one ends with
	return within, nil
}

// arrivedKey is that of what to call when the message of a call of the health service has arrived.
type arrivedKey struct{}

// arriveUnknown is [Server.arrive] for calls of anybody. Their message has to arrive soon, and only so many are awaited. A
// stream, which is among others that last, may go on when it has begun.
func (s *Server) arriveUnknown(ctx context.Context, lasting *newest) (context.Context, error) {
	conn := connectionOf(ctx)
	if conn.health.Add(1) > maxHealth {
		conn.health.Add(-1)
		return nil, status.Errorf(codes.ResourceExhausted, "at most %d calls of the health service at the same time on one connection", maxHealth)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := func() {}
	if lasting != nil {
		ended = lasting.add(cancel)
	}
	leave := s.awaited.add(cancel)
	timer := time.AfterFunc(s.bounds.header, cancel)
	arrived := func() {
		timer.Stop()
		leave()
	}
	context.AfterFunc(ctx, func() { // gRPC ends the context that this one ends with
		arrived()
		ended()
		conn.health.Add(-1)
	})
	return context.WithValue(ctx, arrivedKey{}, arrived), nil
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
	if arrived, ok := s.ctx.Value(arrivedKey{}).(func()); ok {
		arrived()
	}
	return err
}
