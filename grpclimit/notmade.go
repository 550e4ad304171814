package grpclimit

import (
	"context"
	"errors"

	"github.com/stint-limiter/stint"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// notMade is the error of a call that was not made or, on a server, was not passed to its handler.
// It has a gRPC status, and errors.As finds its cause.
type notMade struct {
	cause  error
	status *status.Status
}

func (e *notMade) Error() string { return e.cause.Error() }

func (e *notMade) Unwrap() error { return e.cause }

// GRPCStatus returns the status. [status.FromError] calls it.
func (e *notMade) GRPCStatus() *status.Status { return e.status }

func (c *client) wait(ctx context.Context) error {
	_, err := c.api.Wait(ctx)
	if err == nil {
		return nil
	}
	if denied, ok := errors.AsType[*stint.DeniedError](err); ok {
		return &notMade{err, deniedHere(err, denied)}
	}
	if ended := ctx.Err(); ended != nil {
		return &notMade{err, status.FromContextError(ended)}
	}
	if _, ok := errors.AsType[*stint.InvalidError](err); ok {
		return &notMade{err, status.New(codes.FailedPrecondition, err.Error())}
	}
	return &notMade{err, status.New(codes.Unavailable, err.Error())}
}

// deniedHere returns the status of a call that got no turn or could not be decided. err is the
// error of the call, and denied is the cause in its chain. The status includes the time to wait,
// unless waiting does not help.
func deniedHere(err error, denied *stint.DeniedError) *status.Status {
	code := codes.ResourceExhausted
	if denied.Unavailable {
		code = codes.Unavailable
	}
	st := status.New(code, err.Error())
	if denied.RetryAfter == stint.Never {
		return st
	}
	return withDetails(st, &errdetails.RetryInfo{RetryDelay: durationpb.New(denied.RetryAfter)})
}
