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

// admitCall admits or rejects a call when its header has arrived, before gRPC keeps any part of the
// message in memory. If the call needs a token, the header must contain one. Calls to the health
// service need no token, so their number is limited.
func (s *Server) admitCall(ctx context.Context, info *tap.Info) (context.Context, error) {
	switch info.FullMethodName {
	case healthpb.Health_Check_FullMethodName, healthpb.Health_List_FullMethodName:
		return s.admitHealthCall(ctx, nil)
	case healthpb.Health_Watch_FullMethodName:
		return s.admitHealthCall(ctx, &s.watches)
	}
	if err := s.envoyTokens.check(ctx); err != nil {
		return nil, err
	}
	// Limit the time for the message to arrive. gRPC itself waits for as long as the client answers
	// pings.
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= s.timeouts.body { // Envoy's calls have a deadline
		return ctx, nil
	}
	within, cancel := context.WithTimeout(ctx, s.timeouts.body)
	_ = cancel // not needed: gRPC cancels the parent context
	return within, nil
}

// arrivedKey is the context key of a func() that must be called when the first message of a call to
// the health service has arrived.
type arrivedKey struct{}

// admitHealthCall admits or rejects a call to the health service. It rejects the call if maxHealth
// calls are already in progress on the connection. An admitted call is canceled if its message does
// not arrive within s.timeouts.header, or once it is the oldest of more than maxPendingCalls calls
// without a message. If the call is a stream, it is added to streams, which limits the number of
// open streams but not their duration. For other calls, streams is nil.
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
	context.AfterFunc(ctx, func() { // runs when the call ends: gRPC then cancels the parent context
		arrived()
		ended()
		conn.health.Add(-1)
	})
	return context.WithValue(ctx, arrivedKey{}, arrived), nil
}

// endStreams returns an interceptor that cancels every stream when end is canceled. Only the health
// service has streams. Its clients determine how long the streams last, so a stopping server might
// otherwise wait for them forever.
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

// RecvMsg implements [grpc.ServerStream]. When a message has arrived, the call no longer counts
// toward maxPendingCalls.
func (s *endingStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if arrived, ok := s.ctx.Value(arrivedKey{}).(func()); ok {
		arrived()
	}
	return err
}
