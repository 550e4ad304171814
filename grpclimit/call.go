package grpclimit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/policy"
)

// call holds the state of a call while it is checked and served. If the call is a stream, its
// messages may be checked one by one.
type call struct {
	fields
	server  *server
	input   policy.Input
	verdict *policy.Verdict // verdict on the call, or on the latest message of a stream
}

func (s *server) newCall(ctx context.Context, method string) *call {
	c := &call{fields: fields{ctx}, server: s}
	c.input = policy.Input{
		Method: http.MethodPost, // gRPC sends every call as a POST
		Path:   method,
		Peer:   peerOf(ctx),
		Header: c,
	}
	if host := c.Values(":authority"); len(host) > 0 {
		c.input.Host = host[0]
	}
	if s.claims != nil {
		c.input.Claims = c
	}
	return c
}

// fields gives access to the metadata of a call as header fields. It may store the context, because
// it lives only as long as the call.
type fields struct{ ctx context.Context }

// Values implements [policy.Input.Header]. Metadata keys are in lower case.
func (f fields) Values(name string) []string {
	return metadata.ValueFromIncomingContext(f.ctx, strings.ToLower(name))
}

// Claim implements [policy.Input.Claims].
func (c *call) Claim(name string) string { return c.server.claims(c.ctx, name) }

// judge lets the guard decide the call. It returns the trailer to set, if any, and an error if the
// call is refused.
func (c *call) judge() (metadata.MD, error) {
	v := new(policy.Verdict)
	c.verdict = v
	if err := c.server.guard.Decide(c.ctx, &c.input, v); err != nil {
		if ended := c.ctx.Err(); ended != nil {
			return nil, status.FromContextError(ended).Err()
		}
		if errors.Is(err, ErrNoKey) {
			return nil, &notMade{err, status.New(codes.Internal, err.Error())}
		}
		if _, invalid := errors.AsType[*stint.InvalidError](err); invalid { // a retry would fail too
			return nil, status.Error(codes.Internal, "the call could not be processed")
		}
		return c.refuse(unavailable())
	}
	switch {
	case v.Decision.Allowed:
		return c.withUsage(nil, 0), nil
	case v.Decision.Unavailable:
		return c.refuse(unavailable())
	}
	return c.refuse(c.denied())
}

// peerOf returns the address at the other end of the connection, or the zero Addr if it has none.
func peerOf(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	if tcp, ok := p.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	// If the gRPC server runs behind net/http, the peer's address is a string with the network
	// "tcp", even on a Unix socket, where the client can choose that string. So the local address
	// must be a TCP address too.
	if p.Addr.Network() != "tcp" || p.LocalAddr == nil || p.LocalAddr.Network() != "tcp" {
		return netip.Addr{}
	}
	return clientip.ParsePeer(p.Addr.String())
}
