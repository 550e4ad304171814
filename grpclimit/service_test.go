package grpclimit_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

const (
	sayMethod  = "/test.Echo/Say"
	chatMethod = "/test.Echo/Chat"
)

var chatDesc = &grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true}

// echo is a service without generated code. Its unary call answers what it was told, its streams
// are what the test makes them.
type echo struct {
	say  func(context.Context, string) (string, error)
	chat func(grpc.ServerStream) error
}

// answer calls say, if the test has one.
func (e *echo) answer(ctx context.Context, req any) (any, error) {
	text := req.(*wrapperspb.StringValue).GetValue()
	if e.say == nil {
		return wrapperspb.String(text), nil
	}
	text, err := e.say(ctx, text)
	if err != nil {
		return nil, err
	}
	return wrapperspb.String(text), nil
}

func (e *echo) desc() *grpc.ServiceDesc {
	say := func(_ any, ctx context.Context, decode func(any) error,
		intercept grpc.UnaryServerInterceptor) (any, error) {
		req := &wrapperspb.StringValue{}
		if err := decode(req); err != nil {
			return nil, err
		}
		return intercept(ctx, req, &grpc.UnaryServerInfo{FullMethod: sayMethod}, e.answer)
	}
	stream := func(_ any, s grpc.ServerStream) error { return e.chat(s) }
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo",
		Methods:     []grpc.MethodDesc{{MethodName: "Say", Handler: say}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Chat", Handler: stream, ServerStreams: true, ClientStreams: true},
		},
	}
}

// serve runs the service behind interceptors, and returns a connection to it. Panics of handlers
// end their call.
func (e *echo) serve(t testing.TB, unary []grpc.UnaryServerInterceptor, stream []grpc.StreamServerInterceptor,
	options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	recoverUnary := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (
		_ any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = status.Errorf(codes.Internal, "panic: %v", p)
			}
		}()
		return next(ctx, req)
	}
	recoverStream := func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = status.Errorf(codes.Internal, "panic: %v", p)
			}
		}()
		return next(srv, s)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(append([]grpc.UnaryServerInterceptor{recoverUnary}, unary...)...),
		grpc.ChainStreamInterceptor(append([]grpc.StreamServerInterceptor{recoverStream}, stream...)...),
	)
	server.RegisterService(e.desc(), nil)
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(),
		append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}

func say(ctx context.Context, conn *grpc.ClientConn, options ...grpc.CallOption) error {
	return conn.Invoke(ctx, sayMethod, wrapperspb.String("hello"), &wrapperspb.StringValue{}, options...)
}

// newGuard returns a guard over a memory store, or over the one that is given.
func newGuard(t testing.TB, text string, store stint.Store) *policy.Guard {
	t.Helper()
	if store == nil {
		store = newStore(t)
	}
	return guardtest.New(t, store, text, policy.GuardConfig{})
}

// newStore returns a memory store that is closed with the test.
var newStore = guardtest.Memory

// allowed calls n times and returns how many calls were let through; the others must have been
// denied.
func allowed(t *testing.T, conn *grpc.ClientConn, n int) int {
	t.Helper()
	count := 0
	for range n {
		switch err := say(t.Context(), conn); status.Code(err) {
		case codes.OK:
			count++
		case codes.ResourceExhausted:
		default:
			t.Fatal(err)
		}
	}
	return count
}
