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

const (
	// maxMessage is the maximum size of a message in bytes. Messages from Envoy are a few hundred
	// bytes long.
	maxMessage = 256 << 10
	// streamWindow is the maximum number of bytes in flight to the server in one call, and
	// connWindow is the maximum in all calls of a connection together. These flow-control windows
	// limit how much memory a connection can make the server use. Because they are set, gRPC does
	// not send pings to tune them.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// maxStreams is the maximum number of calls in progress on one connection. Each has a message
	// in memory. If Envoy needs more calls, it opens another connection. If each call takes a
	// millisecond, that happens above 250,000 calls per second.
	maxStreams = 250
	// streamWorkers is the number of goroutines that wait for calls. If each call had a new
	// goroutine, growing its stack would take a sixth of the process's CPU time. The stacks of the
	// waiting goroutines use a few megabytes. When all of them are busy, gRPC starts a new
	// goroutine for each further call.
	streamWorkers = 256
	// pingEvery is the minimum interval between pings from the same client.
	pingEvery = 5 * time.Second
)

// Bounds on the resources that callers without a token can use: about a hundred megabytes in all
// while a few hundred connections are open. maxHealth applies to each connection, and the other
// bounds apply to all connections together. When one of the other bounds is reached, the server
// closes the oldest connection or cancels the oldest call.
const (
	// maxNewConns is the maximum number of open connections that have made no calls other than
	// health checks. Envoy makes a call as soon as it is connected, so this many Envoys can connect
	// at the same time. If a health checker's connection is closed, the health checker opens a new
	// one for its next check.
	maxNewConns = 2048
	// maxPendingCalls is the maximum number of calls to the health service whose messages have not
	// arrived yet. A well-behaved client sends the message together with the header. Each of these
	// calls can make the server keep up to maxMessage bytes in memory.
	maxPendingCalls = 128
	// maxWatches is the maximum number of open streams of the health service. Envoy opens none.
	maxWatches = 1024
	// maxHealth is the maximum number of calls to the health service in progress on one connection.
	// Health checkers make one or two at a time.
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
			go func() { // ends at the latest when the endpoint is closed
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

// intercept recovers from panics, so that a panic ends only its own call. Unless the call is a
// health check, intercept also records that the connection has made a call. When intercept is
// called, the message has arrived, and the token, if the call needs one, has been checked.
func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (
	reply any, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			s.panicked(info.FullMethod, problem)
			err = status.Error(codes.Internal, "the call could not be processed")
		}
	}()
	switch info.FullMethod {
	case healthpb.Health_Check_FullMethodName, healthpb.Health_List_FullMethodName:
	default:
		conn := connectionOf(ctx)
		conn.firstCall.Do(conn.called)
	}
	return next(ctx, request)
}
