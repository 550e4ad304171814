// Package xdstest runs go-control-plane's server in tests. Like Envoy Gateway, it sends the rules
// of Envoy's rate limit service over xDS.
package xdstest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/stint-limiter/stint/internal/testkit"
)

// Node is the ID of the node for which Envoy Gateway keeps the rules.
const Node = "envoy-ratelimit"

// Control is a server that can be stopped and restarted.
type Control struct {
	t      testing.TB
	cache  cachev3.SnapshotCache
	listen func() net.Listener
	server *grpc.Server
	served sync.WaitGroup
	// Version is the version of the last rules that were sent. Set it to 0 to simulate a server
	// that starts again at version 1 after a restart.
	Version int

	mu       sync.Mutex
	refusals []string
	accepted map[string]int // number of acknowledgments, by version
	first    *discoveryv3.DiscoveryRequest
}

// New returns a server that has not been started. Each start calls listen, which must always listen
// on the same address.
func New(t testing.TB, listen func() net.Listener) *Control {
	return &Control{t: t, cache: cachev3.NewSnapshotCache(false, cachev3.IDHash{}, nil), listen: listen,
		accepted: map[string]int{}}
}

// OnTCP returns an address, and a function that listens on it and may be called repeatedly.
func OnTCP(t testing.TB) (listen func() net.Listener, address string) {
	t.Helper()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = first.Addr().String()
	return func() net.Listener {
		if l := first; l != nil {
			first = nil
			return l
		}
		var again net.Listener
		testkit.EventuallyNil(t, "the address is free", func() (err error) {
			again, err = net.Listen("tcp", address)
			return err
		})
		return again
	}, address
}

// Start starts the server.
func (c *Control) Start(options ...grpc.ServerOption) {
	server := grpc.NewServer(options...)
	c.server = server
	ctx, cancel := context.WithCancel(context.Background())
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, serverv3.NewServer(ctx, c.cache,
		serverv3.CallbackFuncs{StreamRequestFunc: c.note}))
	listener := c.listen()
	c.served.Go(func() {
		defer cancel()
		_ = server.Serve(listener)
	})
}

// Stop stops the server and closes all connections. The server keeps the rules.
func (c *Control) Stop() {
	c.server.Stop()
	c.served.Wait()
}

// note records a request from a client. Every request after the first accepts or refuses rules.
func (c *Control) note(_ int64, r *discoveryv3.DiscoveryRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.GetErrorDetail() != nil:
		c.refusals = append(c.refusals, r.GetErrorDetail().GetMessage())
	case r.GetResponseNonce() != "":
		c.accepted[r.GetVersionInfo()]++
	default:
		c.first = r
	}
	return nil
}

// Send publishes rules to clients, and returns their version. If there are no rules, the version is
// "", as in Envoy Gateway, because the snapshot then has no entry for rules.
func (c *Control) Send(rules ...*rlsconfv3.RateLimitConfig) string {
	c.t.Helper()
	c.Version++
	version := strconv.Itoa(c.Version)
	resources := map[resourcev3.Type][]types.Resource{}
	for _, r := range rules {
		resources[resourcev3.RateLimitConfigType] = append(resources[resourcev3.RateLimitConfigType], r)
	}
	snapshot, err := cachev3.NewSnapshot(version, resources)
	if err == nil {
		err = c.cache.SetSnapshot(context.Background(), Node, snapshot)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return snapshot.GetVersion(resourcev3.RateLimitConfigType)
}

// Accepted returns how many times clients have accepted the rules with the given version.
func (c *Control) Accepted(version string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted[version]
}

// Refused returns the reasons that clients have given for refusing rules.
func (c *Control) Refused() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refusals)
}

// First returns the first request on the latest stream.
func (c *Control) First() *discoveryv3.DiscoveryRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

// Limit returns rules that limit each value of a key to n requests per unit.
func Limit(domain, key string, n uint32, unit rlsconfv3.RateLimitUnit) *rlsconfv3.RateLimitConfig {
	return &rlsconfv3.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*rlsconfv3.RateLimitDescriptor{
		{Key: key, RateLimit: &rlsconfv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: n}}}}
}
