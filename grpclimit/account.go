package grpclimit

import (
	"context"
	"strings"
	"sync"

	"github.com/stint-limiter/stint/policy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// account is what a guard wants to know of a call that was served. Handlers may send from several goroutines.
type account struct {
	mu     sync.Mutex
	key    string // the metadata that say the true cost, "" if none do
	cost   string
	weighs bool // the answer's messages
	bytes  int64
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
	a.key, a.cost = strings.ToLower(v.SettleHeader()), ""
	a.weighs, a.bytes = v.SettlesBytes(), 0
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

// sent counts a message of the answer, if that is what it costs. Those that are not protobuf have no size.
func (a *account) sent(m any) {
	a.mu.Lock()
	defer a.mu.Unlock()
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

func (a *account) outcome(err error) policy.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	return policy.Outcome{Status: httpStatus(codeOf(err)), Bytes: a.bytes, Cost: a.cost}
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
