package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
)

// account records the outcome of a served call for a guard. It is safe for concurrent use.
type account struct {
	mu     sync.Mutex
	key    string // metadata key of the true cost, or ""
	cost   string
	weighs bool // whether to add up the sizes of the messages sent
	bytes  int64
	begun  bool // whether any message was sent
}

func newAccount(v *policy.Verdict) *account {
	a := &account{}
	a.open(v)
	return a
}

// open resets the account for a new verdict.
func (a *account) open(v *policy.Verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.key, a.cost = strings.ToLower(v.SettleHeader), ""
	a.weighs, a.bytes, a.begun = v.SettlesBytes, 0, false
}

// note records the true cost from metadata that is about to be sent, and returns the metadata
// without it.
func (a *account) note(md metadata.MD) metadata.MD {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.key == "" {
		return md
	}
	values := md.Get(a.key)
	if len(values) == 0 {
		return md
	}
	a.cost = values[len(values)-1]
	md = md.Copy() // the original belongs to the handler
	md.Delete(a.key)
	return md
}

// sent records that a message was sent to the client. If costs are settled by bytes, it also adds
// up the sizes of protobuf messages.
func (a *account) sent(m any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = true
	if !a.weighs {
		return
	}
	var size int
	switch m := m.(type) {
	case proto.Message:
		size = proto.Size(m)
	case protoadapt.MessageV1:
		size = proto.Size(protoadapt.MessageV2Of(m))
	}
	a.bytes += int64(size)
}

var errPanicked = errors.New("grpclimit: the handler panicked")

// outcome returns the outcome of a call after its handler ended with err. ctx is the call's own
// context. A panic after the answer has begun counts as a success. A status of 500 or more becomes
// 499 if the client has disconnected or the deadline of the call has passed: otherwise a client
// that can make a call fail could get a refund.
func (a *account) outcome(ctx context.Context, err error) policy.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := policy.Outcome{Status: httpStatus(codeOf(err)), Bytes: a.bytes, Cost: a.cost}
	switch {
	case o.Status < http.StatusInternalServerError:
	case errors.Is(err, errPanicked) && a.begun:
		o.Status = http.StatusOK
	case ctx.Err() != nil:
		o.Status = syntax.StatusClientGone
	}
	return o
}

// listenIn returns a context for the handler. It lets the account see the metadata that the handler
// passes to [grpc.SetHeader] and similar functions.
func (a *account) listenIn(ctx context.Context) context.Context {
	stream := grpc.ServerTransportStreamFromContext(ctx)
	if stream == nil {
		return ctx
	}
	return grpc.NewContextWithServerTransportStream(ctx, &accountedTransport{stream, a})
}

// accountedTransport is the stream that grpc.SetHeader and similar functions find in a handler's
// context.
type accountedTransport struct {
	grpc.ServerTransportStream
	account *account
}

func (t *accountedTransport) SetHeader(md metadata.MD) error {
	return t.ServerTransportStream.SetHeader(t.account.note(md))
}

func (t *accountedTransport) SendHeader(md metadata.MD) error {
	return t.ServerTransportStream.SendHeader(t.account.note(md))
}

func (t *accountedTransport) SetTrailer(md metadata.MD) error {
	return t.ServerTransportStream.SetTrailer(t.account.note(md))
}

// accountedStream is the stream that is passed to a handler. It lets the account see what the
// handler sends.
type accountedStream struct {
	grpc.ServerStream
	ctx     context.Context
	account *account
}

func (s *accountedStream) Context() context.Context { return s.ctx }

func (s *accountedStream) SetHeader(md metadata.MD) error {
	return s.ServerStream.SetHeader(s.account.note(md))
}

func (s *accountedStream) SendHeader(md metadata.MD) error {
	return s.ServerStream.SendHeader(s.account.note(md))
}

func (s *accountedStream) SetTrailer(md metadata.MD) { s.ServerStream.SetTrailer(s.account.note(md)) }

func (s *accountedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.account.sent(m)
	}
	return err
}

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
