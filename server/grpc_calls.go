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

// admitCall admits or rejects a call when its header has arrived, before gRPC keeps any of its
// message. If the call needs a token, the header must have it. The health service needs no token,
// so the number of its calls is bounded.
func (s *Server) admitCall(ctx context.Context, info *tap.Info) (context.Context, error) {
	switch info.FullMethodName {
	case healthpb.Health_Check_FullMethodName:
		return s.admitHealthCall(ctx, nil)
	case healthpb.Health_Watch_FullMethodName:
		return s.admitHealthCall(ctx, &s.watches)
	}
	if err := s.envoyTokens.check(ctx); err != nil {
		return nil, err
	}
	// gRPC itself waits for a message for as long as the client answers pings.
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= s.timeouts.body { // Envoy's calls have a deadline
		return ctx, nil
	}
	within, cancel := context.WithTimeout(ctx, s.timeouts.body)
	_ = cancel // gRPC ends the parent context
	return within, nil
}

// arrivedKey is the context key of the function to call once the message of a health check arrives.
type arrivedKey struct{}

// admitHealthCall is like [Server.admitCall] for calls that need no token. Their message must
// arrive soon, and the number of pending calls is bounded. The number of streams is bounded, too,
// but their duration is not.
func (s *Server) admitHealthCall(ctx context.Context, streams *boundedSet) (context.Context, error) {
	conn := connectionOf(ctx)
	conn.heard()
	if conn.health.Add(1) > maxHealth {
		conn.health.Add(-1)
		return nil, status.Errorf(codes.ResourceExhausted,
			"at most %d calls of the health service at the same time on one connection", maxHealth)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := func() {}
	if streams != nil {
		ended = streams.add(cancel)
	}
	leave := s.pendingCalls.add(cancel)
	timer := time.AfterFunc(s.timeouts.header, cancel)
	arrived := func() {
		timer.Stop()
		leave()
	}
	context.AfterFunc(ctx, func() { // gRPC ends the parent context
		arrived()
		ended()
		conn.health.Add(-1)
	})
	return context.WithValue(ctx, arrivedKey{}, arrived), nil
}

// endStreams ends all streams when the context end ends. Only the health service has streams. Its
// clients determine how long they last, so a stopping server could wait for them forever.
func endStreams(end context.Context) grpc.StreamServerInterceptor {
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

func (s *endingStream) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream]. The call is pending until a message arrives.
func (s *endingStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if arrived, ok := s.ctx.Value(arrivedKey{}).(func()); ok {
		arrived()
	}
	return err
}
