package grpclimit_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/grpclimit"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/outbound"
)

// newAPI returns a client of the API "echo", as one process has it.
func newAPI(t testing.TB, store stint.Store, limit stint.Limit) *outbound.Client {
	t.Helper()
	api, _ := newRegistry(t, store, limit)
	return api
}

func newRegistry(t testing.TB, store stint.Store, limit stint.Limit) (*outbound.Client, *outbound.Registry) {
	t.Helper()
	registry, err := outbound.New(store, []outbound.API{{Name: "echo", Limits: []stint.Limit{limit}, FailFast: true}},
		outbound.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registry.Close)
	api := testkit.Must(registry.API("echo"))(t)
	return api, registry
}

func through(api *outbound.Client) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(grpclimit.UnaryClientInterceptor(api)),
		grpc.WithChainStreamInterceptor(grpclimit.StreamClientInterceptor(api)),
	}
}

// slowDown is how a service says so.
func slowDown(d time.Duration) error {
	st, err := status.New(codes.ResourceExhausted, "slow down").WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		return err
	}
	return st.Err()
}

func TestClientNotMade(t *testing.T) {
	called := false
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		called = true
		return nil
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	gone, registry := newRegistry(t, newStore(t), stint.PerHour(1))
	if err := registry.Update(nil); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		ctx  context.Context
		api  *outbound.Client
		want codes.Code
	}{
		{"canceled", canceled, newAPI(t, newStore(t), stint.PerHour(1)), codes.Canceled},
		{"late", late, newAPI(t, newStore(t), stint.PerHour(1)), codes.DeadlineExceeded},
		{"never", t.Context(), newAPI(t, newStore(t), stint.PerHour(0)), codes.ResourceExhausted},
		{"store", t.Context(), newAPI(t, broken, stint.PerHour(1)), codes.Unavailable},
		{"store under FailDeny", t.Context(), newAPI(t, guardtest.Away{}, stint.PerHour(1)), codes.Unavailable},
		{"API that is gone", t.Context(), gone, codes.FailedPrecondition},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := grpclimit.UnaryClientInterceptor(test.api)(test.ctx, sayMethod, nil, nil, nil, invoke)
			if got := status.Code(err); got != test.want || called {
				t.Errorf("got %v, called %v; want %v and no call", err, called, test.want)
			}
		})
	}
}

// TestClientPauses: a service that says to slow down is not asked again, by calls and by streams.
func TestClientPauses(t *testing.T) {
	for name, call := range map[string]func(*testing.T, *grpc.ClientConn) error{
		"unary": func(t *testing.T, conn *grpc.ClientConn) error { return say(t.Context(), conn) },
		"stream": func(t *testing.T, conn *grpc.ClientConn) error {
			stream, err := conn.NewStream(t.Context(), chatDesc, chatMethod)
			if err != nil {
				return err
			}
			return drain(stream)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			refuse := func() error {
				asked.Add(1)
				return slowDown(10 * time.Minute)
			}
			service := &echo{
				say:  func(context.Context, string) (string, error) { return "", refuse() },
				chat: func(grpc.ServerStream) error { return refuse() },
			}
			conn := service.serve(t, nil, nil, through(newAPI(t, newStore(t), stint.PerHour(100)))...)
			for i := range 3 { // the first gets the answer of the service
				err := call(t, conn)
				if status.Code(err) != codes.ResourceExhausted || errors.Is(err, outbound.ErrCoolingDown) != (i > 0) {
					t.Errorf("call %d: got %v", i, err)
				}
			}
			if got := asked.Load(); got != 1 {
				t.Errorf("the service was asked %d times, want once", got)
			}
		})
	}
}

func TestClientPerMessage(t *testing.T) {
	received := make(chan int, 1)
	service := &echo{chat: func(s grpc.ServerStream) error {
		n := 0
		for s.RecvMsg(&wrapperspb.StringValue{}) == nil {
			n++
		}
		received <- n
		return s.Context().Err()
	}}
	conn := service.serve(t, nil, nil, grpc.WithChainStreamInterceptor(
		grpclimit.MessageClientInterceptor(newAPI(t, newStore(t), stint.PerHour(2)))))
	stream := open(t, conn, chatDesc, chatMethod)
	for range 2 {
		if err := stream.SendMsg(wrapperspb.String("hello")); err != nil {
			t.Fatal(err)
		}
	}
	err := stream.SendMsg(wrapperspb.String("one too many"))
	if _, ok := errors.AsType[*stint.DeniedError](err); !ok || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want a denial", err)
	}
	if err := drain(stream); status.Code(err) != codes.Canceled {
		t.Errorf("the stream ended with %v, want it aborted", err)
	}
	if got := <-received; got > 2 {
		t.Errorf("the service received %d messages, want at most 2", got)
	}
}

// By default a stream has one turn, however much it sends.
func TestClientPerStream(t *testing.T) {
	conn := (&echo{chat: echoAll}).serve(t, nil, nil, through(newAPI(t, newStore(t), stint.PerHour(2)))...)
	for range 2 {
		if n, err := talk(t, conn, 5); n != 5 || err != nil {
			t.Fatalf("got %d messages and %v, want 5", n, err)
		}
	}
	if _, err := conn.NewStream(t.Context(), chatDesc, chatMethod); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want no turn for a third stream", err)
	}
}

// Of two APIs in a row, such as all of a service and a tenant's share of it, the inner one that has
// no turn is no reason for the outer one to pause.
func TestClientsInARow(t *testing.T) {
	outer, registry := newRegistry(t, newStore(t), stint.PerHour(100))
	inner := newAPI(t, newStore(t), stint.PerHour(1))
	conn := (&echo{chat: echoAll}).serve(t, nil, nil, append(through(outer), through(inner)...)...)
	if err := say(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if err := say(t.Context(), conn); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want no turn", err)
	}
	if _, err := conn.NewStream(t.Context(), chatDesc, chatMethod); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want no turn for a stream", err)
	}
	if s := registry.Stats()[0]; s.Calls != 3 || s.Cooldowns != 0 {
		t.Errorf("the outer API had %d turns and %d pauses, want 3 and none", s.Calls, s.Cooldowns)
	}
}
