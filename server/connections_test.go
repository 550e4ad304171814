package server

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/internal/testkit"
)

// closed waits until the other end of a connection has closed it, for a while.
func closed(conn net.Conn, wait time.Duration) bool {
	_ = conn.SetReadDeadline(time.Now().Add(wait)) // it is ours
	_, err := io.Copy(io.Discard, conn)
	return err == nil || errors.Is(err, syscall.ECONNRESET)
}

// idle opens connections on which nothing is said.
func (r *running) idle(listener Listener, n int) []net.Conn {
	r.t.Helper()
	var all []net.Conn
	for range n {
		conn := testkit.Opened(net.Dial("tcp", r.Addr(listener).String()))(r.t)
		all = append(all, conn)
	}
	return all
}

// watch returns a stream of the health service that has begun, on a connection of its own.
func (r *running) watch(ctx context.Context) healthpb.Health_WatchClient {
	r.t.Helper()
	return testkit.Must(watchHealth(ctx, healthpb.NewHealthClient(r.dial())))(r.t)
}

// watchHealth returns a stream that has begun.
func watchHealth(ctx context.Context, client healthpb.HealthClient) (healthpb.Health_WatchClient, error) {
	stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	return stream, err
}

// TestF49Strangers: of connections that make no call the oldest make room for others, whose clients
// are answered; one that has made a call stays.
func TestF49Strangers(t *testing.T) {
	const most = 100
	r := start(t, everywhere(t), func(s *Server) {
		s.newConns.most, s.timeouts.header = most, time.Hour // which closes nothing
	})
	var dials atomic.Int32
	counted := r.dial(grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", to)
		}))
	if _, err := ask(t.Context(), counted, "a"); err != nil {
		t.Fatal(err)
	}
	idle := r.idle(GRPC, most+50)
	for i, conn := range idle[:50] {
		if !closed(conn, time.Minute) {
			t.Fatalf("connection %d is open, and %d newer ones are", i, len(idle)-i-1)
		}
	}
	if closed(idle[len(idle)-1], 100*time.Millisecond) {
		t.Error("the newest connection was closed")
	}
	if _, err := ask(t.Context(), r.dial(), "a"); err != nil {
		t.Errorf("a new client: %v", err)
	}
	if _, err := ask(t.Context(), counted, "a"); err != nil || dials.Load() != 1 {
		t.Errorf("the first client: %v, after %d dials", err, dials.Load())
	}
	r.wantLogged("closed the oldest connection without a call")
}

// TestMaxConnections closes connections beyond the bound at once, on every listener, and takes
// others when there is room.
func TestMaxConnections(t *testing.T) {
	c := everywhere(t)
	c.MaxConnections = 3
	r := start(t, c, func(s *Server) { s.timeouts.header = time.Hour }) // which closes nothing
	for _, listener := range []Listener{HTTP, GRPC, Admin} {
		open := r.idle(listener, c.MaxConnections)
		if !closed(r.idle(listener, 1)[0], time.Minute) {
			t.Errorf("%s: one more is not closed", listener)
		}
		_ = open[0].Close()
		testkit.Eventually(t, string(listener)+" takes another one", func() bool {
			return !closed(r.idle(listener, 1)[0], 50*time.Millisecond)
		})
		r.wantLogged(`reached its maximum (--max-clients)" listener=` + string(listener))
	}
	if _, err := New(Config{HTTP: anywhere, MaxConnections: -1}); err == nil ||
		!strings.Contains(err.Error(), "Config.MaxConnections is -1; want 1 or more") {
		t.Errorf("-1: got %v", err)
	}
}

// TestF49Health bounds the calls of the health service on one connection, and gives back what has
// ended.
func TestF49Health(t *testing.T) {
	r := start(t, everywhere(t))
	client := healthpb.NewHealthClient(r.dial())
	watch := func() (context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		_, err := watchHealth(ctx, client)
		return cancel, err
	}
	var ends []context.CancelFunc
	for range maxHealth {
		end := testkit.Must(watch())(t)
		ends = append(ends, end)
	}
	if _, err := watch(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: got %v, want %v", err, codes.ResourceExhausted)
	}
	if _, err := client.List(t.Context(), &healthpb.HealthListRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more, a list: got %v, want %v", err, codes.ResourceExhausted)
	}
	if _, err := healthpb.NewHealthClient(r.dial()).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("on another connection: %v", err)
	}
	for _, end := range ends {
		end()
	}
	testkit.Eventually(t, "there is room for a check", func() bool {
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
		return err == nil
	})
}

// TestF49Watches: of streams of the health service on many connections the oldest make room.
func TestF49Watches(t *testing.T) {
	const most = 20
	r := start(t, everywhere(t), func(s *Server) { s.watches.most = most })
	var streams []healthpb.Health_WatchClient
	for range most + 5 {
		streams = append(streams, r.watch(t.Context()))
	}
	for i, stream := range streams[:5] {
		if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("stream %d: got %v, want that it was ended", i, err)
		}
	}
	r.health.enter(draining)
	for i, stream := range streams[5:] {
		if got, err := stream.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("stream %d: got %v, %v; want that it goes on", 5+i, got, err)
		}
	}
}
