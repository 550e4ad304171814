package envoyrls_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/internal/xdstest"
	"github.com/stint-limiter/stint/memorystore"
)

// following is a service whose rules come from a control, and what it has logged.
type following struct {
	*envoyrls.Service
	xds *envoyrls.XDS
	log *testkit.Buffer
	// changes are the results that a monitor gets.
	changes atomic.Int64
}

// control returns a server that has not been started, and stops it at the end.
func control(t testing.TB) (*xdstest.Control, string) {
	listen, address := xdstest.OnTCP(t)
	c := xdstest.New(t, listen)
	t.Cleanup(c.Stop)
	return c, address
}

// follow connects a service to a control until the test ends. Its clock stands still, so that no
// window ends during the test.
func follow(t testing.TB, c envoyrls.XDSConfig, adjust ...func(*envoyrls.XDS)) *following {
	t.Helper()
	f := &following{log: &testkit.Buffer{}}
	at := time.Now()
	now := func() time.Time { return at }
	f.Service = newService(t, guardtest.MemoryWith(t, memorystore.Config{Now: now}), nil, envoyrls.Options{Window: envoyrls.Fixed, Now: now})
	c.NodeID, c.Logger = xdstest.Node, textLogger(f.log)
	c.Use = f.Swap
	c.Reloaded = func(reload.Result) { f.changes.Add(1) }
	f.xds = envoyrls.NewXDS(c)
	for _, do := range adjust {
		do(f.xds)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = f.xds.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		work.Wait()
		if t.Failed() {
			t.Logf("log:\n%s", f.log)
		}
	})
	return f
}

// inForce waits until the limits are those of the text.
func (f *following) inForce(t testing.TB, want string) {
	t.Helper()
	testkit.EventuallyNil(t, "rules in force", func() error {
		if got := f.Config().Dump(); got != want {
			return fmt.Errorf("got\n%s\nwant\n%s", got, want)
		}
		return nil
	})
}

// dumped is a limit as [envoyrls.Config.Dump] shows it.
func dumped(key string, n int, unit string) string {
	return fmt.Sprintf("%s: unit=%s requests_per_unit=%d, shadow_mode: false, quota_mode: false\n", key, unit, n)
}

const hour = rlsconfv3.RateLimitUnit_HOUR

// TestXDS: nothing is decided before the first rules; then rules are in force as they are sent, an
// empty set included, and each is acknowledged.
func TestXDS(t *testing.T) {
	c, address := control(t)
	cluster := make(chan []string, 100)
	c.Start(grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		header, _ := metadata.FromIncomingContext(stream.Context())
		cluster <- header.Get("x-cluster")
		return next(srv, stream)
	}))
	f := follow(t, envoyrls.XDSConfig{Server: address, NodeMetadata: map[string]string{"zone": "a"},
		Headers: map[string]string{"x-cluster": "eu"}})
	question := ask("shop", "user=a")
	if _, err := f.ShouldRateLimit(t.Context(), question); status.Code(err) != codes.Unavailable {
		t.Errorf("before the first rules: %v; want UNAVAILABLE", err)
	}
	if r := f.xds.Reload(); r.Err == nil {
		t.Error("Reload: no error before the first rules")
	}
	c.Send(xdstest.Limit("shop", "user", 2, hour))
	f.inForce(t, dumped("shop.user", 2, "HOUR"))
	if is := <-cluster; len(is) != 1 || is[0] != "eu" {
		t.Errorf("the header is %q", is)
	}
	run(t, f.Service, envoyrls.Fixed, []step{{2, question, "OK: OK 0 of 2/HOUR", ""}, {1, question, "OVER: OVER 0 of 2/HOUR", ""}})
	version := c.Send(xdstest.Limit("shop", "user", 5, hour), xdstest.Limit("other", "ip", 1, hour))
	f.inForce(t, dumped("other.ip", 1, "HOUR")+dumped("shop.user", 5, "HOUR"))
	testkit.Eventually(t, "the rules are acknowledged", func() bool { return c.Accepted(version) == 1 })
	c.Send()
	f.inForce(t, "")
	run(t, f.Service, envoyrls.Fixed, []step{{1, question, "OK: OK", ""}})
	testkit.Eventually(t, "two changes after the first rules are reported", func() bool {
		r := f.xds.Last()
		return r.Err == nil && r.Good == 2 && f.changes.Load() == 3
	})
	if who := c.First().GetNode(); who.GetId() != xdstest.Node || who.GetMetadata().AsMap()["zone"] != "a" {
		t.Errorf("the node is %v", who)
	}
}

// TestXDSRefuses: rules with mistakes are refused with every mistake, the last good ones stay in
// force, and good ones that follow are used.
func TestXDSRefuses(t *testing.T) {
	c, address := control(t)
	c.Start()
	broken := &rlsconfv3.RateLimitConfig{Name: "a", Domain: "shop", Descriptors: []*rlsconfv3.RateLimitDescriptor{
		{Key: "", RateLimit: &rlsconfv3.RateLimitPolicy{Unit: hour, RequestsPerUnit: 1}},
		{Key: "user", RateLimit: &rlsconfv3.RateLimitPolicy{RequestsPerUnit: 1}},
		{Key: "user", RateLimit: &rlsconfv3.RateLimitPolicy{Unit: 99}},
		{Key: "ip", RateLimit: &rlsconfv3.RateLimitPolicy{Unit: hour, Unlimited: true}},
	}}
	const sameDomain = "b: domain: duplicate domain 'shop' in config file; first set at a"
	want := strings.Join([]string{
		"a: descriptors[0]: descriptor has empty key",
		"a: descriptors[1].rate_limit.unit: invalid rate limit unit ''; want second, minute, hour, day, week, month or year",
		"a: descriptors[2]: duplicate descriptor composite key 'shop.user'",
		"a: descriptors[2].rate_limit.unit: invalid rate limit unit '99'; want second, minute, hour, day, week, month or year",
		"a: descriptors[3].rate_limit.unit: should not specify rate limit unit when unlimited",
		sameDomain,
	}, "\n")
	duplicate := xdstest.Limit("shop", "user", 1, hour)
	duplicate.Name = "b"
	c.Send(broken, duplicate)
	f := follow(t, envoyrls.XDSConfig{Server: address})
	testkit.Eventually(t, "a refusal", func() bool { return len(c.Refused()) > 0 })
	if got := c.Refused()[0]; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if f.Config() != nil || f.xds.Last().Err == nil {
		t.Errorf("%s is in force, and the error is %v", f.Config().Dump(), f.xds.Last().Err)
	}
	testkit.Eventually(t, "the first refusal is logged and reported", func() bool {
		return strings.Count(f.log.String(), "refused the configuration of Envoy's service, and there was none before") == 1 && f.changes.Load() == 1
	})
	good := xdstest.Limit("shop", "user", 3, hour)
	c.Send(good)
	f.inForce(t, dumped("shop.user", 3, "HOUR"))
	before := len(c.Refused())
	duplicate.Domain = "shop"
	c.Send(good, duplicate)
	testkit.Eventually(t, "another refusal", func() bool { return len(c.Refused()) > before })
	if got, want := c.Refused()[before], "shop: domain: duplicate domain 'shop' in config file; first set at b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.inForce(t, dumped("shop.user", 3, "HOUR"))
	testkit.Eventually(t, "the refusal is logged", func() bool {
		return strings.Count(f.log.String(), "was refused; the last good version stays in force") == 1
	})
	// The same rules once more are acknowledged, and change nothing.
	is := f.Config()
	version := c.Send(good)
	testkit.Eventually(t, "the same rules are acknowledged", func() bool { return c.Accepted(version) == 1 })
	if f.Config() != is || f.xds.Last().Err != nil {
		t.Errorf("the same rules are a change, or an error: %v", f.xds.Last().Err)
	}
}

// TestXDSMerges: with merged domains, several resources are one domain.
func TestXDSMerges(t *testing.T) {
	c, address := control(t)
	c.Start()
	more := xdstest.Limit("shop", "ip", 4, hour)
	more.Name = "more"
	more.Descriptors[0].ShadowMode, more.Descriptors[0].QuotaMode = true, true
	more.Descriptors[0].Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"text": structpb.NewStringValue("true")}}
	c.Send(xdstest.Limit("shop", "user\u2028\x7f", 3, hour), more)
	f := follow(t, envoyrls.XDSConfig{Server: address, MergeDomains: true})
	f.inForce(t, "shop.ip: unit=HOUR requests_per_unit=4, shadow_mode: true, quota_mode: true\n"+
		dumped(`shop.user\u2028\x7f`, 3, "HOUR"))
	run(t, f.Service, envoyrls.Fixed, []step{{1, ask("shop", "user\u2028\x7f=a"), "OK: OK 2 of 3/HOUR", ""}})
}

// otherType is a server that sends resources of another type than rules.
type otherType struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (otherType) StreamAggregatedResources(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if err := s.Send(&discoveryv3.DiscoveryResponse{TypeUrl: resourcev3.ClusterType, VersionInfo: "1"}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// TestXDSOtherType: resources of another type are refused, and are not an empty set of rules.
func TestXDSOtherType(t *testing.T) {
	listen, address := xdstest.OnTCP(t)
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, otherType{})
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(listen()) })
	defer work.Wait()
	defer server.Stop()
	f := follow(t, envoyrls.XDSConfig{Server: address})
	testkit.Eventually(t, "the type is refused", func() bool {
		err := f.xds.Last().Err
		return err != nil && strings.Contains(err.Error(), "the server sent resources of the type")
	})
	if f.Config() != nil {
		t.Errorf("%q is in force", f.Config().Dump())
	}
}

// TestXDSAway: the server is away for a minute, on a virtual clock. The last rules stay in force.
// What has changed is in force within a second after the server is back.
func TestXDSAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current atomic.Pointer[bufconn.Listener]
		c := xdstest.New(t, func() net.Listener {
			l := bufconn.Listen(1 << 20)
			current.Store(l)
			return l
		})
		c.Send(xdstest.Limit("shop", "user", 2, hour))
		c.Start()
		f := follow(t, envoyrls.XDSConfig{Server: "control:18001"}, func(x *envoyrls.XDS) {
			x.DialWith(func(ctx context.Context, _ string) (net.Conn, error) { return current.Load().DialContext(ctx) })
		})
		synctest.Wait()
		if got := f.Config().Dump(); got != dumped("shop.user", 2, "HOUR") {
			t.Fatalf("at first: %s", got)
		}
		c.Stop()
		for i := range 60 {
			time.Sleep(time.Second)
			run(t, f.Service, envoyrls.Fixed, []step{{1, ask("shop", "user="+strconv.Itoa(i)), "OK: OK 1 of 2/HOUR", ""}})
		}
		if r := f.xds.Last(); r.Err == nil || !strings.Contains(r.Err.Error(), "no connection to xds://control:18001") {
			t.Errorf("the connection is lost, and the error is %v", r.Err)
		}
		c.Send(xdstest.Limit("shop", "user", 7, hour))
		c.Start()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := f.Config().Dump(); got != dumped("shop.user", 7, "HOUR") || f.xds.Last().Err != nil {
			t.Errorf("a second after the server is back: %s, %v", got, f.xds.Last().Err)
		}
		if n := strings.Count(f.log.String(), "no connection to the server"); n > 2 {
			t.Errorf("a minute without a connection is logged %d times", n)
		}
		c.Stop()
	})
}

// TestSnapshots: what Envoy Gateway sends for its documented examples, and for those of AI Gateway,
// is acknowledged and limits what Envoy asks for then, as the documentation says.
func TestSnapshots(t *testing.T) {
	for _, snapshot := range xdstest.Snapshots(t) {
		t.Run(snapshot.Name, func(t *testing.T) {
			c, address := control(t)
			c.Start()
			f := follow(t, envoyrls.XDSConfig{Server: address})
			version := c.Send(snapshot.Rules...)
			testkit.Eventually(t, "the rules are acknowledged", func() bool { return c.Accepted(version) == 1 })
			for i, q := range snapshot.Questions {
				r := questionOf(q)
				allowed := 0
				for range q.Times {
					if decide(t, f.Service, r).GetOverallCode() == ok {
						allowed++
					}
				}
				if allowed != q.Allowed {
					t.Errorf("question %d: %d of %d allowed, want %d (%s)", i+1, allowed, q.Times, q.Allowed, snapshot.Source)
				}
			}
		})
	}
}

// questionOf returns what Envoy asks.
func questionOf(q xdstest.Question) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{}
	for _, entries := range q.Descriptors {
		one := ask(q.Domain, strings.Join(entries, ","))
		if r.Domain = q.Domain; q.Hits >= 0 {
			one.Descriptors[0].HitsAddend = wrapperspb.UInt64(uint64(q.Hits))
		}
		r.Descriptors = append(r.Descriptors, one.Descriptors...)
	}
	return r
}

// TestXDSRestarts: rules that change or are deleted while there is no connection do not stay in
// force, even if the restarted server counts its versions from one again, and a client that has had
// none gets to know that there are none.
func TestXDSRestarts(t *testing.T) {
	c, address := control(t)
	c.Send(xdstest.Limit("shop", "user", 2, hour))
	c.Start()
	f := follow(t, envoyrls.XDSConfig{Server: address})
	f.inForce(t, dumped("shop.user", 2, "HOUR"))
	c.Stop()
	c.Version = 0
	c.Send(xdstest.Limit("shop", "user", 3, hour))
	c.Start()
	f.inForce(t, dumped("shop.user", 3, "HOUR"))
	c.Stop()
	c.Send()
	c.Start()
	f.inForce(t, "")
	fresh := follow(t, envoyrls.XDSConfig{Server: address})
	testkit.Eventually(t, "no rules are in force", func() bool { return fresh.Config() != nil })
}
