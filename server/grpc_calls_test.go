package server

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// TestArrival: calls of a connection share the time within which their messages have to arrive,
// each has most of it, and it ends with the connection.
func TestArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := (&connections{}).take(&net.TCPConn{})
		const most = 8 * time.Second
		first := c.arrivalWithin(most)
		time.Sleep(most / 4)
		if c.arrivalWithin(most) != first {
			t.Error("after a quarter of the time: got another context, want the same")
		}
		time.Sleep(1)
		second := c.arrivalWithin(most)
		if end, _ := second.Deadline(); time.Until(end) != most {
			t.Errorf("after more than a quarter: got %v, want all of the time", time.Until(end))
		}
		time.Sleep(most / 4 * 3)
		synctest.Wait()
		if !errors.Is(first.Err(), context.DeadlineExceeded) || second.Err() != nil {
			t.Errorf("after the first's time: got %v and %v, want only the first ended", first.Err(), second.Err())
		}
		_ = c.Close() // there is nothing to close
		if !errors.Is(second.Err(), context.Canceled) {
			t.Errorf("after the connection: got %v, want %v", second.Err(), context.Canceled)
		}
	})
}

// TestArrived: once its message has arrived, a call has the time that its client gives it, and ends
// when its client cancels it.
func TestArrived(t *testing.T) {
	type key struct{}
	own, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "own"))
	until, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	call := &arriving{own, until}
	if _, ok := call.Deadline(); !ok || call.Value(key{}) != "own" || call.Done() != until.Done() {
		t.Error("before: want the deadline of the arrival and the values of the call")
	}
	info := &grpc.UnaryServerInfo{FullMethod: healthpb.Health_Check_FullMethodName}
	_, err := (&Server{}).intercept(context.WithValue(call, key{}, "gRPC's"), nil, info,
		func(ctx context.Context, _ any) (any, error) {
			if _, ok := ctx.Deadline(); ok {
				t.Error("after: got a deadline")
			}
			cancel()
			return nil, ctx.Err()
		})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after: got %v, want %v", err, context.Canceled)
	}
}
