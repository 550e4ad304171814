package faults

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// envoyToken is what callers of [startServer] need.
const envoyToken = "token-of-an-envoy"

func TestF49(t *testing.T) {
	const mostMiB = 256 // of the whole process, 30 of which it has when it starts
	fault(t, "F49", "half-sent gRPC messages and idle watch streams before authentication", "memory ≤ 256 MiB; callers with a token and health checks are answered", func(r *report) {
		binary := proxytest.BuildStint(r)
		const connections, messages, watching, watches = 450, 4, 40, 250
		half := func(method string) func(c *hostileConn) {
			return func(c *hostileConn) {
				for i := range messages {
					c.call(uint32(2*i+1), method, 256<<10)
				}
			}
		}
		for _, attack := range []struct {
			name        string
			connections int
			each        func(c *hostileConn)
			most        int // calls that go on
		}{
			{"messages for Envoy's service", connections, half(rls.RateLimitService_ShouldRateLimit_FullMethodName), 0},
			{"messages for Health/Check", connections, half(healthpb.Health_Check_FullMethodName), 128},
			{"messages for Health/Watch", connections, half(healthpb.Health_Watch_FullMethodName), 128},
			{"Watch streams", watching, func(c *hostileConn) {
				for i := range watches {
					c.watch(uint32(2*i+1), healthpb.Health_Watch_FullMethodName)
				}
			}, 16 * watching},
		} {
			server := startServer(r, binary)
			early := server.dial(r)
			server.ask(r, early)
			held := server.attack(r, attack.connections, attack.each, func(held func() int) {
				server.ask(r, early)
				late := server.dial(r)
				server.ask(r, late)
				if _, err := healthpb.NewHealthClient(server.dial(r)).Check(
					r.Context(), &healthpb.HealthCheckRequest{}); err != nil {
					r.Errorf("%s: a health check during the attack: %v", attack.name, err)
				}
				testkit.Eventually(r, attack.name+" are ended", func() bool { return held() <= attack.most })
			})
			peak := server.peakMiB(r)
			if peak > mostMiB {
				r.Errorf("%s: the process took %d MiB; at most %d are promised", attack.name, peak, mostMiB)
			}
			r.saw("%s on %d connections: %d go on, peak %d MiB", attack.name, attack.connections, held, peak)
			server.Kill()
		}
	})
}

// stintServer is a real stint process with Envoy's service.
type stintServer struct {
	*proxytest.Stint
	address string // of that service
}

// startServer starts a process that wants a token.
func startServer(r *report, binary string) *stintServer {
	r.Helper()
	rules := testkit.TempFile(r, "rules.yaml", "domain: test\n"+
		"descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1000}}]\n")
	address := proxytest.FreeAddress(r)
	s := &stintServer{proxytest.NewStint(r, binary, "--grpc="+address,
		"--envoy-config="+rules, "--envoy-token-file="+testkit.TempFile(r, "tokens", envoyToken+"\n")), address}
	s.Start(r)
	return s
}

// attack has connections do something each, all at the same time, then does what is to be done
// meanwhile, and returns how many calls of theirs still go on.
func (s *stintServer) attack(r *report, connections int, each func(*hostileConn), meanwhile func(held func() int)) int {
	r.Helper()
	all := make([]*hostileConn, connections)
	var work sync.WaitGroup
	defer func() {
		for _, c := range all {
			if c != nil {
				c.close()
			}
		}
		work.Wait()
	}()
	for i := range all {
		c := testkit.Must(dialHostile(s.address))(r)
		all[i] = c
		work.Go(func() { each(c) })
	}
	held := func() int {
		n := 0
		for _, c := range all {
			n += c.held()
		}
		return n
	}
	work.Wait()
	meanwhile(held)
	return held()
}

// dial returns a connection of an honest client.
func (s *stintServer) dial(r *report) *grpc.ClientConn {
	r.Helper()
	return testkit.Opened(grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials())))(r)
}

// ask asks as Envoy does, with a token.
func (s *stintServer) ask(r *report, conn *grpc.ClientConn) {
	r.Helper()
	ctx, cancel := context.WithTimeout(
		metadata.AppendToOutgoingContext(r.Context(), "authorization", "Bearer "+envoyToken), 10*time.Second)
	defer cancel()
	answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: "test",
		Descriptors: []*ratelimit.RateLimitDescriptor{
			{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "a"}}}},
	})
	if err != nil || answer.GetOverallCode() != rls.RateLimitResponse_OK {
		r.Errorf("a caller with a token: got %v, %v", answer.GetOverallCode(), err)
	}
}

// peakMiB is how much memory the process has had at most. Linux tells; elsewhere it is 0.
func (s *stintServer) peakMiB(r *report) int {
	r.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(s.Cmd.Process.Pid) + "/status")
	if os.IsNotExist(err) {
		return 0
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if err != nil || found == nil {
		r.Fatalf("unreadable: %v: %s", err, text)
	}
	kilobytes, _ := strconv.Atoi(string(found[1]))
	return kilobytes >> 10
}
