package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Bounds on what a connection may cost over gRPC.
const (
	// maxMessage is the largest message in bytes; those of Envoy have a few hundred.
	maxMessage = 256 << 10
	// streamWindow and connWindow are how many bytes of a call, and of all calls of a connection, may be on their way to us. That
	// they are fixed bounds what a connection may have us keep, and saves the pings by which gRPC would look for better ones.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// maxStreams is how many calls may be under way on one connection, each with a message that is kept. Envoy opens
	// another connection beyond; at a millisecond a call that is at 250,000 a second.
	maxStreams = 250
	// streamWorkers is how many goroutines wait for calls. One that is new for each call has to grow its stack each time,
	// which is a sixth of what the process does; so many stacks are a few megabytes. When all are busy, new ones are made.
	streamWorkers = 256
	// pingEvery is how often a client may ask for a sign of life of ours.
	pingEvery = 5 * time.Second
)

// Bounds on what may be had without a token, which keep it to some hundred megabytes. Beyond them those who came first
// have to go.
const (
	// maxStrangers is how many connections may be open that have not made a call yet, other than of the health service. Envoy
	// makes one as soon as it is connected; so many can be connecting at the same time. Those of health checkers that are
	// closed are opened again for the next check.
	maxStrangers = 2048
	// maxAwaited is how many calls of the health service may be under way whose message has not arrived. An honest one arrives
	// with the header.
	maxAwaited = 256
	// maxWatches is how many streams of the health service there may be. Envoy and Kubernetes have none: they check.
	maxWatches = 1024
	// maxHealth is how many calls of the health service may be under way on one connection. Checkers have one or two.
	maxHealth = 16
)

// newGRPC returns Envoy's rate limit service and the health service.
func (s *Server) newGRPC() (served, error) {
	ctx, end := context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.ConnectionTimeout(s.bounds.header),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: s.bounds.alive, Timeout: s.bounds.alive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery, PermitWithoutStream: true}),
		grpc.InTapHandle(s.arrive),
		grpc.UnaryInterceptor(s.intercept),
		grpc.StreamInterceptor(untilEnd(ctx)),
	}
	if s.certificate != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.certificate.listen())))
	}
	srv := grpc.NewServer(options...)
	s.envoy.Register(srv)
	healthpb.RegisterHealthServer(srv, s.vitals.grpc)
	return served{
		serve:     srv.Serve,
		strangers: &s.strangers,
		shutdown: func(ctx context.Context) error {
			end()
			done := make(chan struct{})
			go func() { // ends when close is called, at the latest
				srv.GracefulStop()
				close(done)
			}()
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		close: func() error {
			srv.Stop()
			return nil
		},
	}, nil
}

// intercept has one call that goes wrong end no others. Whose message has arrived, and who has shown a token where one is
// needed, is no stranger any more.
func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (reply any, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			s.panicked(info.FullMethod, problem)
			err = status.Error(codes.Internal, "the call could not be processed")
		}
	}()
	if info.FullMethod != healthpb.Health_Check_FullMethodName {
		conn := connectionOf(ctx)
		conn.introduce.Do(conn.known)
	}
	return next(ctx, request)
}
