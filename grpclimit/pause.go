package grpclimit

import (
	"errors"
	"strconv"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/middleware"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// pause makes all processes pause if the status of a call asks for it. It ignores a notMade error,
// which comes from an inner interceptor and reports nothing about this API.
func (c *client) pause(err error, trailer metadata.MD) {
	if _, own := errors.AsType[*notMade](err); err == nil || own {
		return
	}
	if d := pauseOf(status.Convert(err), trailer); d > 0 {
		c.api.Cooldown(d)
	}
}

// pauseOf returns the pause that a service asks for, or 0.
func pauseOf(st *status.Status, trailer metadata.MD) time.Duration {
	if st.Code() != codes.ResourceExhausted && st.Code() != codes.Unavailable {
		return 0
	}
	pause, stated := retryDelay(st)
	if pushback := trailer.Get(pushbackKey); len(pushback) > 0 {
		stated = true
		// A value that is not a number means the same as a negative one: do not retry.
		if ms, err := strconv.ParseInt(pushback[0], 10, 64); err == nil && ms > 0 {
			pause = max(pause, time.Duration(min(ms, stint.MaxWindow.Milliseconds()))*time.Millisecond)
		}
	}
	if !stated && st.Code() == codes.ResourceExhausted {
		return middleware.DefaultRetryAfter
	}
	return pause
}

func retryDelay(st *status.Status) (delay time.Duration, ok bool) {
	for _, detail := range st.Details() {
		if info, is := detail.(*errdetails.RetryInfo); is && info.GetRetryDelay() != nil {
			delay, ok = min(max(delay, info.GetRetryDelay().AsDuration()), stint.MaxWindow), true
		}
	}
	return delay, ok
}
