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
				grpclimit.UnaryServerInterceptor(guard, grpclimit.WithUsage())}, nil)
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
		for name, options := range map[string][]grpclimit.ServerOption{
			"": {grpclimit.WithUsage()}, " of a message": {grpclimit.WithUsage(), grpclimit.PerMessage()},
		} {
			t.Run(test.name+name, func(t *testing.T) {
				guard := newGuard(t, strings.Replace(costly, "SETTLE", test.settle, 1), nil)
				service := &echo{}
				conn := service.serve(t, nil, []grpc.StreamServerInterceptor{
					grpclimit.StreamServerInterceptor(guard, options...)})
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
