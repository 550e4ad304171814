package grpclimit_test

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/grpclimit"
)

// textAddr is a peer as servers behind net/http know it.
type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }

// A call has everything that a policy can match: one that matches is denied.
func TestInput(t *testing.T) {
	peerAt := func(ctx context.Context, addr, local net.Addr) context.Context {
		return peer.NewContext(ctx, &peer.Peer{Addr: addr, LocalAddr: local})
	}
	tcp := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:1234"))
	unix := &net.UnixAddr{Name: "/run/socket", Net: "unix"}
	with := func(kv ...string) context.Context {
		return metadata.NewIncomingContext(peerAt(context.Background(), tcp, nil), metadata.Pairs(kv...))
	}
	claims := grpclimit.WithClaims(func(ctx context.Context, name string) string {
		value, _ := ctx.Value(claimKey(name)).(string)
		return value
	})
	tests := []struct {
		name  string
		match string
		ctx   context.Context
		want  codes.Code
	}{
		{"path", "path: /test.Echo/Say", with(), codes.ResourceExhausted},
		{"another path", "path: /test.Echo/Chat", with(), codes.OK},
		{"method", "method: POST", with(), codes.ResourceExhausted},
		{"host", "host: api.example.com", with(":authority", "api.example.com:443"), codes.ResourceExhausted},
		{"another host", "host: api.example.com", with(":authority", "example.com"), codes.OK},
		{"metadata", "header: {X-Beta: 'on'}", with("x-beta", "on"), codes.ResourceExhausted},
		{"no metadata", "header: {X-Beta: 'on'}", context.Background(), codes.OK},
		{"claim", "claim: {plan: free}", context.WithValue(with(), claimKey("plan"), "free"), codes.ResourceExhausted},
		{"claim of a caller's own", "claim: {plan: free}", with("plan", "free"), codes.OK},
		{"peer", "network: 192.0.2.0/24", with(), codes.ResourceExhausted},
		{"behind a proxy", "network: 203.0.113.1", metadata.NewIncomingContext(
			peerAt(context.Background(), net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:80")), nil),
			metadata.Pairs("x-forwarded-for", "198.51.100.1, 203.0.113.1")), codes.ResourceExhausted},
		{"behind net/http", "network: 192.0.2.0/24", peerAt(context.Background(), textAddr("192.0.2.7:80"), tcp), codes.ResourceExhausted},
		{"behind net/http on a Unix socket", "network: 192.0.2.0/24",
			peerAt(context.Background(), textAddr("192.0.2.7:80"), unix), codes.OK},
		{"Unix socket", "network: 192.0.2.0/24",
			peerAt(context.Background(), &net.UnixAddr{Name: "192.0.2.7:80", Net: "unix"}, unix), codes.OK},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			guard := newGuard(t, `
client_ip: {trusted_proxies: 10.0.0.0/8}
tiers: [{name: all, identity: everyone, limits: unlimited}]
policies: [{name: matched, match: {`+test.match+`}, limits: 0/1h}]
`, nil)
			_, err := grpclimit.UnaryServerInterceptor(guard, claims)(
				test.ctx, nil, &grpc.UnaryServerInfo{FullMethod: sayMethod},
				func(context.Context, any) (any, error) { return nil, nil })
			if got := status.Code(err); got != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

type claimKey string

func TestUsage(t *testing.T) {
	conn := unaryServer(t, "tiers: [{name: anonymous, identity: ip, limits: [2/1h, 9/1m]}]", nil, grpclimit.WithTrailer())
	for _, remaining := range []string{"1", "0", "0"} {
		var header, trailer metadata.MD
		reset := "3600"
		if err := say(t.Context(), conn, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
			wait := refusalFrom(t, err, trailer).retry // until there is room
			reset = strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
		}
		for key, want := range map[string]string{"ratelimit-limit": "2", "ratelimit-remaining": remaining,
			"ratelimit-reset": reset} {
			if got := trailer.Get(key); len(got) != 1 || got[0] != want {
				t.Errorf("got %s %q, want %q", key, got, want)
			}
			if got := header.Get(key); got != nil {
				t.Errorf("got %s %q in the header, want it in the trailer only", key, got)
			}
		}
	}
	var trailer metadata.MD
	if err := say(t.Context(), unaryServer(t, "tiers: [{name: all, identity: ip, limits: 1/1h}]", nil), grpc.Trailer(&trailer)); err != nil || trailer.Len() != 0 {
		t.Errorf("got %v and the trailer %v, want an empty trailer unless asked for", err, map[string][]string(trailer))
	}
}
