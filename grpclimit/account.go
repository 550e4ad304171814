package grpclimit

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/stint-limiter/stint/internal/words"
	"github.com/stint-limiter/stint/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// account is what a guard wants to know of a served call. It is safe for concurrent use.
type account struct {
	mu     sync.Mutex
	key    string // the metadata that say the true cost, "" if none do
	cost   string
	weighs bool // the answer's messages
	bytes  int64
	begun  bool // to answer: a message was sent
}

func newAccount(v *policy.Verdict) *account {
	a := &account{}
	a.open(v)
	return a
}

// open begins anew, for another verdict.
func (a *account) open(v *policy.Verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.key, a.cost = strings.ToLower(v.SettleHeader), ""
	a.weighs, a.bytes, a.begun = v.SettlesBytes, 0, false
}

// note takes the true cost out of metadata that are about to be sent, if they say it.
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
	md = md.Copy() // it is the handler's
	md.Delete(a.key)
	return md
}

// sent notes a message of the answer, and its size if that is what it costs and it is protobuf.
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

// errPanicked is the error of a handler that did not return.
var errPanicked = errors.New("grpclimit: the handler panicked")

// outcome is what became of a call whose handler ended with err. ctx is the call's own. A panic
// after the answer has begun is no failure of the whole. Nor is a failure ours if the client has
// left or its deadline has passed: who could make a call fail could have it refunded.
func (a *account) outcome(ctx context.Context, err error) policy.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := policy.Outcome{Status: httpStatus(codeOf(err)), Bytes: a.bytes, Cost: a.cost}
	switch {
	case o.Status < http.StatusInternalServerError:
	case errors.Is(err, errPanicked) && a.begun:
		o.Status = http.StatusOK
	case ctx.Err() != nil:
		o.Status = words.StatusClientGone
	}
	return o
}

// listenIn returns a context in which [grpc.SetHeader] and its like are noted.
func (a *account) listenIn(ctx context.Context) context.Context {
	stream := grpc.ServerTransportStreamFromContext(ctx)
	if stream == nil {
		return ctx
	}
	return grpc.NewContextWithServerTransportStream(ctx, &accountedTransport{stream, a})
}

// accountedTransport is what grpc.SetHeader and its like find in the context of a handler.
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
