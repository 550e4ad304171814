package grpclimit

import (
	"math"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/middleware"
	"github.com/stint-limiter/stint/internal/testkit"
)

func TestPauseOf(t *testing.T) {
	retry := func(d time.Duration) *errdetails.RetryInfo {
		return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
	}
	tests := []struct {
		name     string
		code     codes.Code
		retry    *errdetails.RetryInfo
		pushback string
		want     time.Duration
	}{
		{"bare", codes.ResourceExhausted, nil, "", middleware.DefaultRetryAfter},
		{"bare outage", codes.Unavailable, nil, "", 0},
		{"retry info", codes.ResourceExhausted, retry(3 * time.Second), "", 3 * time.Second},
		{"retry info in an outage", codes.Unavailable, retry(3 * time.Second), "", 3 * time.Second},
		{"pushback", codes.ResourceExhausted, nil, "1500", 1500 * time.Millisecond},
		{"pushback in an outage", codes.Unavailable, nil, "1500", 1500 * time.Millisecond},
		{"the longer of two", codes.ResourceExhausted, retry(3 * time.Second), "4000", 4 * time.Second},
		{"the longer of two, the other way", codes.ResourceExhausted, retry(3 * time.Second), "1", 3 * time.Second},
		{"at once", codes.ResourceExhausted, nil, "0", 0},
		{"at once by retry info", codes.ResourceExhausted, retry(0), "", 0},
		{"do not retry", codes.ResourceExhausted, nil, "-1", 0},
		{"do not retry this call", codes.ResourceExhausted, retry(3 * time.Second), "-1", 3 * time.Second},
		{"garbage", codes.ResourceExhausted, nil, "soon", 0},
		{"empty retry info", codes.ResourceExhausted, &errdetails.RetryInfo{}, "", middleware.DefaultRetryAfter},
		{"negative", codes.ResourceExhausted, retry(-time.Hour), "-100", 0},
		{"absurd", codes.ResourceExhausted, retry(math.MaxInt64), "9223372036854775807", stint.MaxWindow},
		{"out of range", codes.ResourceExhausted, nil, "9223372036854775808", 0},
		{"another code", codes.Internal, retry(3 * time.Second), "1500", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var details []protoadapt.MessageV1
			if test.retry != nil {
				details = append(details, test.retry)
			}
			st := testkit.Must(status.New(test.code, "slow down").WithDetails(details...))(t)
			var trailer metadata.MD
			if test.pushback != "" {
				trailer = metadata.Pairs(pushbackKey, test.pushback)
			}
			if got := pauseOf(st, trailer); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestHTTPStatus(t *testing.T) {
	for code, want := range map[codes.Code]int{
		codes.OK: 200, codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504,
		codes.NotFound: 404, codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429,
		codes.FailedPrecondition: 400, codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
		codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401, codes.Code(99): 500,
	} {
		if got := httpStatus(code); got != want {
			t.Errorf("%v: got %d, want %d", code, got, want)
		}
	}
}
