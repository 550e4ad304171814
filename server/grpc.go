package server

import (
	"context"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
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
		grpc.InTapHandle(s.awaitMessage),
		grpc.UnaryInterceptor(s.intercept),
		grpc.StreamInterceptor(untilEnd(ctx)),
	}
	if s.certificate != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.certificate.listen())))
	}
	srv := grpc.NewServer(options...)
	rls.RegisterRateLimitServiceServer(srv, s.envoy)
	healthpb.RegisterHealthServer(srv, s.vitals.grpc)
	return served{
		serve: srv.Serve,
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

// intercept asks for a token, but not those who only ask how the server is; and has one call that goes wrong end no
// others.
func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (reply any, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			s.panicked(info.FullMethod, problem)
			err = status.Error(codes.Internal, "the call could not be processed")
		}
	}()
	if info.FullMethod != healthpb.Health_Check_FullMethodName {
		if err := s.proxies.check(ctx); err != nil {
			return nil, err
		}
	}
	return next(ctx, request)
}
