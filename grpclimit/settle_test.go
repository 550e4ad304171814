package grpclimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint/grpclimit"
	"github.com/stint-limiter/stint/internal/testkit"
)

// costly charges 10 units for a call at first, of 100.
const costly = `
tiers: [{name: anonymous, identity: ip, budget: 100/1h}]
policies: [{name: talk, match: {path: /test.Echo/*}, cost: 10, SETTLE}]
`

// A handler that knows better corrects what its call cost, and one that fails may cost nothing.
func TestSettle(t *testing.T) {
	const byHeader, byBytes, refund = "settle: {header: X-Cost}", "settle: {bytes: 1KiB}", "refund: [5xx, 404]"
	cost := func(set func(context.Context, metadata.MD) error, values ...string) func(context.Context, string) (
		string, error) {
		return func(ctx context.Context, _ string) (string, error) {
			return "done", set(ctx, metadata.MD{"x-cost": values, "x-other": {"kept"}})
		}
	}
	fail := func(err error) func(context.Context, string) (string, error) {
		return func(context.Context, string) (string, error) { return "", err }
	}
	tests := []struct {
		name   string
		settle string
		say    func(context.Context, string) (string, error)
		want   string // remaining after one call, and the probe's 10
	}{
		{"not at all", byHeader, nil, "80"},
		{"header", byHeader, cost(grpc.SetHeader, "3"), "87"},
		{"header sent at once", byHeader, cost(grpc.SendHeader, "3"), "87"},
		{"trailer", byHeader, cost(grpc.SetTrailer, "25"), "65"},
		{"the last of several", byHeader, cost(grpc.SetTrailer, "1", "2"), "88"},
		{"not a number", byHeader, cost(grpc.SetTrailer, "much"), "80"},
		{"bytes", byBytes, func(context.Context, string) (string, error) {
			return strings.Repeat("x", 2000), nil
		}, "88"},
		{"refund", refund, fail(status.Error(codes.Internal, "broken")), "90"},
		{"refund of any error", refund, fail(errors.New("broken")), "90"},
		{"refund of what is not found", refund, fail(status.Error(codes.NotFound, "nothing")), "90"},
		{"no refund", refund, fail(status.Error(codes.InvalidArgument, "wrong")), "80"},
		{"refund after a panic", refund, func(context.Context, string) (string, error) { panic("broken") }, "90"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			guard := newGuard(t, strings.Replace(costly, "SETTLE", test.settle, 1), nil)
			service := &echo{say: test.say}
			conn := service.serve(t, []grpc.UnaryServerInterceptor{
				grpclimit.UnaryServerInterceptor(guard, grpclimit.WithTrailer())}, nil)
			var header, trailer metadata.MD
			_ = say(t.Context(), conn, grpc.Header(&header), grpc.Trailer(&trailer))
			if got := append(header.Get("x-cost"), trailer.Get("x-cost")...); got != nil {
				t.Errorf("the answer has the cost %q", got)
			}
			if strings.HasPrefix(test.name, "header") && len(header.Get("x-other")) != 1 {
				t.Errorf("got the header %v, want x-other in it", map[string][]string(header))
			}
			service.say = nil
			if err := say(t.Context(), conn, grpc.Trailer(&trailer)); err != nil {
				t.Fatal(err)
			}
			if got := trailer.Get("ratelimit-remaining"); len(got) != 1 || got[0] != test.want {
				t.Errorf("got %q units remaining, want %s", got, test.want)
			}
		})
	}
}

func TestSettleStream(t *testing.T) {
	tests := []struct {
		name   string
		settle string
		chat   func(grpc.ServerStream) error
		want   string
	}{
		{"by the stream", "settle: {header: X-Cost}", func(s grpc.ServerStream) error {
			s.SetTrailer(metadata.Pairs("x-cost", "3"))
			return nil
		}, "87"},
		{"by its context", "settle: {header: X-Cost}", func(s grpc.ServerStream) error {
			return grpc.SetTrailer(s.Context(), metadata.Pairs("x-cost", "3"))
		}, "87"},
		{"by its header", "settle: {header: X-Cost}", func(s grpc.ServerStream) error {
			return errors.Join(s.SetHeader(metadata.Pairs("x-cost", "2")), s.SendHeader(metadata.Pairs("x-cost", "3")))
		}, "87"},
		{"by all messages", "settle: {bytes: 1KiB}", func(s grpc.ServerStream) error {
			text := wrapperspb.String(strings.Repeat("x", 1000))
			return errors.Join(s.SendMsg(text), s.SendMsg(text), s.SendMsg(text))
		}, "87"},
		{"refund", "refund: 5xx", func(grpc.ServerStream) error { return errors.New("broken") }, "90"},
		{"refund after a panic", "refund: 5xx", func(grpc.ServerStream) error { panic("broken") }, "90"},
	}
	for _, test := range tests {
		for name, limit := range map[string]streamLimit{
			"": grpclimit.StreamServerInterceptor, " of a message": grpclimit.MessageServerInterceptor,
		} {
			t.Run(test.name+name, func(t *testing.T) {
				guard := newGuard(t, strings.Replace(costly, "SETTLE", test.settle, 1), nil)
				service := &echo{}
				conn := service.serve(t, nil, []grpc.StreamServerInterceptor{limit(guard, grpclimit.WithTrailer())})
				call := func(chat func(grpc.ServerStream) error) (header, trailer metadata.MD) {
					service.chat = func(s grpc.ServerStream) error {
						if err := s.RecvMsg(&wrapperspb.StringValue{}); err != nil {
							return err
						}
						return chat(s)
					}
					stream := open(t, conn, chatDesc, chatMethod)
					if err := stream.SendMsg(wrapperspb.String("hello")); err != nil {
						t.Fatal(err)
					}
					_ = drain(stream)
					header, _ = stream.Header()
					return header, stream.Trailer()
				}
				header, trailer := call(test.chat)
				if got := append(header.Get("x-cost"), trailer.Get("x-cost")...); got != nil {
					t.Errorf("the answer has the cost %q", got)
				}
				_, trailer = call(func(grpc.ServerStream) error { return nil })
				if got := trailer.Get("ratelimit-remaining"); len(got) != 1 || got[0] != test.want {
					t.Errorf("got %s units remaining, want %s", got, test.want)
				}
			})
		}
	}
}

// plainStream is a stream whose messages go nowhere.
type plainStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s plainStream) Context() context.Context { return s.ctx }
func (plainStream) RecvMsg(any) error          { return nil }
func (plainStream) SendMsg(any) error          { return nil }
func (plainStream) SetTrailer(metadata.MD)     {}

// once allows one call, and gives it back after a failure of ours.
const once = `
tiers: [{name: all, identity: everyone, limits: 1/1h}]
policies: [{name: talk, match: {path: /test.Echo/*}, refund: 5xx}]
`

// A failure is refunded, unless the client made it happen: by leaving, by a deadline of its choice.
func TestNoRefundForTheClientsFailures(t *testing.T) {
	backend := status.Error(codes.DeadlineExceeded, "the backend is slow")
	tests := []struct {
		name     string
		end      error // of the call's context, while it is served
		sends    bool  // a message, before the end
		err      error // nil: it panics
		refunded bool
	}{
		{"failed", nil, false, status.Error(codes.Internal, "broken"), true},
		{"backend out of time", nil, false, backend, true},
		{"backend out of time, late", nil, true, backend, true},
		{"panic", nil, false, nil, true},
		{"panic after a message", nil, true, nil, false},
		{"deadline", context.DeadlineExceeded, false, context.DeadlineExceeded, false},
		{"deadline as a status", context.DeadlineExceeded, false, backend, false},
		{"deadline, another error", context.DeadlineExceeded, false, errors.New("broken"), false},
		{"left", context.Canceled, false, context.Canceled, false},
		{"left, another error", context.Canceled, true, status.Error(codes.Unavailable, "broken"), false},
		{"left, panic", context.Canceled, false, nil, false},
	}
	for _, test := range tests {
		for kind, limit := range map[string]streamLimit{
			"call": nil, "stream": grpclimit.StreamServerInterceptor, "message": grpclimit.MessageServerInterceptor} {
			if kind == "call" && test.sends {
				continue // it sends when it returns
			}
			t.Run(test.name+", "+kind, func(t *testing.T) {
				guard := newGuard(t, once, nil)
				ctx := &testkit.EndingContext{Context: t.Context()}
				end := func() error {
					if ctx.End = test.end; test.err == nil {
						panic("broken")
					}
					return test.err
				}
				call := func(end func() error) (err error) {
					defer func() { recover() }()
					if kind == "call" {
						_, err = grpclimit.UnaryServerInterceptor(guard)(
							ctx, nil, &grpc.UnaryServerInfo{FullMethod: sayMethod},
							func(context.Context, any) (any, error) { return nil, end() })
						return err
					}
					return limit(guard)(nil, plainStream{ctx: ctx},
						&grpc.StreamServerInfo{FullMethod: chatMethod},
						func(_ any, s grpc.ServerStream) error {
							if err := s.RecvMsg(nil); err != nil {
								return err
							}
							if test.sends {
								_ = s.SendMsg(wrapperspb.String("hello"))
							}
							return end()
						})
				}
				_ = call(end)
				ctx.End = nil
				if err := call(func() error { return nil }); (err == nil) != test.refunded {
					t.Errorf("the next call: got %v, want that this one was refunded: %v", err, test.refunded)
				}
			})
		}
	}
}
