package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint/grpclimit"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/policy"
)

func open(t *testing.T, conn *grpc.ClientConn, desc *grpc.StreamDesc, method string) grpc.ClientStream {
	t.Helper()
	stream := testkit.Must(conn.NewStream(t.Context(), desc, method))(t)
	return stream
}

// drain receives to the end of a stream, and returns the error that it ends with, nil for its
// regular end.
func drain(stream grpc.ClientStream) error {
	for {
		switch err := stream.RecvMsg(&wrapperspb.StringValue{}); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// talk sends n messages on a new stream, waits for the echo of each, and returns how many it got
// and how the stream ended.
func talk(t *testing.T, conn *grpc.ClientConn, n int) (int, error) {
	t.Helper()
	stream := open(t, conn, chatDesc, chatMethod)
	for i := range n {
		_ = stream.SendMsg(wrapperspb.String("hello")) // RecvMsg knows why it failed
		if err := stream.RecvMsg(&wrapperspb.StringValue{}); err != nil {
			return i, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	return n, drain(stream)
}

// echoAll sends back what it receives.
func echoAll(s grpc.ServerStream) error {
	for {
		m := &wrapperspb.StringValue{}
		if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

// streamLimit makes an interceptor for streams.
type streamLimit func(*policy.Guard, ...grpclimit.GuardOption) grpc.StreamServerInterceptor

// streamServer serves streams, with a limit of each address.
func streamServer(t *testing.T, limit string, chat func(grpc.ServerStream) error, kind streamLimit) *grpc.ClientConn {
	guard := newGuard(t, "tiers: [{name: anonymous, identity: ip, limits: "+limit+"}]", nil)
	return (&echo{chat: chat}).serve(t, nil, []grpc.StreamServerInterceptor{kind(guard)})
}

func TestStreamPerCall(t *testing.T) {
	conn := streamServer(t, "2/1h", echoAll, grpclimit.StreamServerInterceptor)
	for range 2 {
		if n, err := talk(t, conn, 5); n != 5 || err != nil {
			t.Fatalf("got %d messages and %v, want 5", n, err)
		}
	}
	wantDenial(t, conn, 0)
}

// wantDenial demands that a stream is denied after n messages, with all that a denial has.
func wantDenial(t *testing.T, conn *grpc.ClientConn, n int) {
	t.Helper()
	stream := open(t, conn, chatDesc, chatMethod)
	for i := range n + 1 {
		_ = stream.SendMsg(wrapperspb.String("hello"))
		err := stream.RecvMsg(&wrapperspb.StringValue{})
		if i < n && err == nil {
			continue
		}
		st := status.Convert(err)
		if i < n || st.Code() != codes.ResourceExhausted {
			t.Fatalf("got %v after %d messages, want a denial after %d", err, i, n)
		}
		var retry bool
		for _, detail := range st.Details() {
			_, is := detail.(*errdetails.RetryInfo)
			retry = retry || is
		}
		if pushback := stream.Trailer().Get("grpc-retry-pushback-ms"); !retry || len(pushback) != 1 {
			t.Errorf("got %v with the pushback %q, want a RetryInfo and one pushback", st.Details(), pushback)
		}
	}
}

func TestStreamPerMessage(t *testing.T) {
	conn := streamServer(t, "4/1h", echoAll, grpclimit.MessageServerInterceptor)
	for _, n := range []int{0, 1, 0, 2} { // a stream without messages costs nothing
		if got, err := talk(t, conn, n); got != n || err != nil {
			t.Fatalf("got %d messages and %v, want %d", got, err, n)
		}
	}
	wantDenial(t, conn, 1)
	wantDenial(t, conn, 0)
}

// A denial ends a stream whatever its handler thinks of it.
func TestStreamPerMessageStubborn(t *testing.T) {
	for name, chat := range map[string]func(s grpc.ServerStream) error{
		"ignores it": func(s grpc.ServerStream) error {
			for echoAll(s) == nil {
			}
			return nil
		},
		"has an error of its own": func(s grpc.ServerStream) error {
			return errors.Join(errors.New("own"), echoAll(s))
		},
		"goes on sending": func(s grpc.ServerStream) error {
			_ = echoAll(s)
			for s.SendMsg(wrapperspb.String("more")) == nil {
			}
			return nil
		},
		"waits for its context": func(s grpc.ServerStream) error {
			var receiving sync.WaitGroup
			receiving.Go(func() { _ = echoAll(s) })
			<-s.Context().Done()
			receiving.Wait()
			return context.Cause(s.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantDenial(t, streamServer(t, "2/1h", chat, grpclimit.MessageServerInterceptor), 2)
		})
	}
}

// A stream has its place for as long as it lasts, and whatever ends it gives the place back.
func TestStreamHoldsPlace(t *testing.T) {
	ends := map[string]func(grpc.ServerStream) error{
		"returns": func(grpc.ServerStream) error { return nil },
		"fails":   func(grpc.ServerStream) error { return errors.New("broken") },
		"panics":  func(grpc.ServerStream) error { panic("broken") },
	}
	for name, end := range ends {
		for kind, limit := range map[string]streamLimit{
			"call": grpclimit.StreamServerInterceptor, "message": grpclimit.MessageServerInterceptor} {
			t.Run(name+" per "+kind, func(t *testing.T) {
				chat := func(s grpc.ServerStream) error {
					if err := echoAll(s); err != nil {
						return err
					}
					return end(s)
				}
				conn := streamServer(t, "1/1m concurrency", chat, limit)
				for range 3 {
					first := open(t, conn, chatDesc, chatMethod)
					for range 2 { // the first message is in by the time that its echo is back
						if err := errors.Join(first.SendMsg(wrapperspb.String("hello")),
							first.RecvMsg(&wrapperspb.StringValue{})); err != nil {
							t.Fatal(err)
						}
					}
					wantDenial(t, conn, 0)
					_ = first.CloseSend()
					_ = drain(first) // its status comes when the place is free
				}
			})
		}
	}
}

// A handler that receives in a goroutine may return before that one does.
func TestPerMessageAfterReturn(t *testing.T) {
	var receiving sync.WaitGroup
	chat := func(s grpc.ServerStream) error {
		m := &wrapperspb.StringValue{}
		if err := s.RecvMsg(m); err != nil {
			return err
		}
		receiving.Go(func() {
			for s.RecvMsg(&wrapperspb.StringValue{}) == nil { // only one goroutine may send
			}
		})
		return s.SendMsg(m)
	}
	conn := streamServer(t, "1/1m concurrency", chat, grpclimit.MessageServerInterceptor)
	for i := range 20 {
		stream := open(t, conn, chatDesc, chatMethod)
		_ = stream.SendMsg(wrapperspb.String("hello"))
		_ = stream.SendMsg(wrapperspb.String("too late, perhaps"))
		err := drain(stream)
		receiving.Wait()
		if err != nil {
			t.Fatalf("stream %d: got %v, want a place", i, err)
		}
	}
}
