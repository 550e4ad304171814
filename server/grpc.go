package server

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// Bounds on what a gRPC connection may cost.
const (
	// maxMessage is the largest message in bytes. Envoy's have a few hundred.
	maxMessage = 256 << 10
	// streamWindow and connWindow are how many bytes of a call, and of all calls of a connection,
	// may be in flight to the server. Fixed windows bound what a connection can make the server
	// keep, and save the pings that gRPC needs to tune them.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// maxStreams is how many calls may be in progress on one connection, each with a message in
	// memory. Beyond it Envoy opens another connection; at one millisecond per call that happens at
	// 250,000 calls per second.
	maxStreams = 250
	// streamWorkers is how many goroutines wait for calls. A new goroutine for each call would have
	// to grow its stack each time, which is a sixth of the process's work. This many stacks take a
	// few megabytes. When all are busy, gRPC starts new ones.
	streamWorkers = 256
	// pingEvery is how often a client may ping the server.
	pingEvery = 5 * time.Second
)

// Bounds on what callers without a token can use, some hundred megabytes in all. Beyond a bound,
// the oldest goes first.
const (
	// maxNewConns is how many open connections may have made no call yet, not counting health
	// checks. Envoy makes one as soon as it is connected, so this many can be connecting at the
	// same time. A health checker whose connection is closed opens a new one for its next check.
	maxNewConns = 2048
	// maxPendingCalls is how many calls of the health service may be waiting for their message.
	// That of an honest client arrives with the header.
	maxPendingCalls = 256
	// maxWatches is how many streams of the health service there may be. Envoy uses none.
	maxWatches = 1024
	// maxHealth is how many calls of the health service may be in progress on one connection.
	// Checkers have one or two.
	maxHealth = 16
)

func (s *Server) newGRPC() (endpoint, error) {
	ctx, end := context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.ConnectionTimeout(s.timeouts.header),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.NumStreamWorkers(streamWorkers),
		envoyrls.Codec(),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: s.timeouts.alive, Timeout: s.timeouts.alive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery, PermitWithoutStream: true}),
		grpc.InTapHandle(s.admitCall),
		grpc.UnaryInterceptor(s.intercept),
		grpc.StreamInterceptor(endStreams(ctx)),
	}
	if s.certificate != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.certificate.listen())))
	}
	srv := grpc.NewServer(options...)
	s.envoy.Register(srv)
	healthpb.RegisterHealthServer(srv, s.health.grpc)
	return endpoint{
		serve:    srv.Serve,
		newConns: &s.newConns,
		silent:   &silentConns{since: map[net.Conn]time.Time{}},
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

// intercept recovers from panics, so that one call cannot end others, and notes that a connection
// has made a call: its message has arrived, and its token was checked if one is needed.
func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (
	reply any, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			s.panicked(info.FullMethod, problem)
			err = status.Error(codes.Internal, "the call could not be processed")
		}
	}()
	if info.FullMethod != healthpb.Health_Check_FullMethodName {
		conn := connectionOf(ctx)
		conn.firstCall.Do(conn.called)
	}
	return next(ctx, request)
}
