package grpclimit

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// account records the outcome of a served call for a guard. It is safe for concurrent use.
type account struct {
	mu     sync.Mutex
	key    string // metadata key of the true cost, or ""
	cost   string
	weighs bool // whether the sizes of the answer's messages are added up
	bytes  int64
	begun  bool // whether a message of the answer was sent
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

// sent records that a message of the answer was sent. It also adds up the sizes of protobuf
// messages if they determine the cost.
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

// errPanicked stands for the error of a handler that panicked.
var errPanicked = errors.New("grpclimit: the handler panicked")

// outcome returns the outcome of a call after its handler ended with err. ctx is the call's own
// context. A panic after the answer has begun counts as a success. A status of 500 or more becomes
// 499 if the client has disconnected or its deadline has passed: otherwise a client that can make a
// call fail could get a refund.
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

// listenIn returns a context in which the account receives the metadata of [grpc.SetHeader] and
// similar functions.
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
