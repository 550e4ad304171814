package grpclimit

import (
	"cmp"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/internal/syntax"
)

// codeOf returns the code that a server sends for a handler's error.
func codeOf(err error) codes.Code {
	if st, ok := status.FromError(err); ok {
		return st.Code()
	}
	return status.FromContextError(err).Code()
}

// httpStatuses maps codes to HTTP statuses, as in google.rpc.Code. All other codes map to 500.
var httpStatuses = map[codes.Code]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           syntax.StatusClientGone,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unauthenticated:    http.StatusUnauthorized,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.Aborted:            http.StatusConflict,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
}

func httpStatus(code codes.Code) int {
	return cmp.Or(httpStatuses[code], http.StatusInternalServerError)
}
