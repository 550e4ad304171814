package grpclimit_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint/grpclimit"
)

// endingContext is a context that ends when a test says so.
type endingContext struct {
	context.Context
	end error
}

func (c *endingContext) Err() error { return c.end }

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
		for kind, options := range map[string][]grpclimit.ServerOption{
			"call": nil, "stream": {}, "message": {grpclimit.PerMessage()}} {
			if kind == "call" && test.sends {
				continue // it sends when it returns
			}
			t.Run(test.name+", "+kind, func(t *testing.T) {
				guard := newGuard(t, once, nil)
				ctx := &endingContext{Context: t.Context()}
				end := func() error {
					if ctx.end = test.end; test.err == nil {
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
					return grpclimit.StreamServerInterceptor(guard, options...)(nil, plainStream{ctx: ctx},
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
				ctx.end = nil
				if err := call(func() error { return nil }); (err == nil) != test.refunded {
					t.Errorf("the next call: got %v, want that this one was refunded: %v", err, test.refunded)
				}
			})
		}
	}
}

// A place has no time at which it is free, and none is told.
func TestUsageOfPlaces(t *testing.T) {
	guard := newGuard(t, "tiers: [{name: all, identity: everyone, limits: 2/1m concurrency}]", nil)
	conn := (&echo{}).serve(t, []grpc.UnaryServerInterceptor{
		grpclimit.UnaryServerInterceptor(guard, grpclimit.WithUsage())}, nil)
	var trailer metadata.MD
	if err := say(t.Context(), conn, grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if got := trailer.Get("ratelimit-remaining"); !slices.Equal(got, []string{"1"}) ||
		trailer.Get("ratelimit-reset") != nil {
		t.Errorf("got the trailer %v, want 1 remaining and no reset", trailer)
	}
}
