package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
)

// The contenders' names.
const (
	stintName     = "stint"
	ratelimitName = "ratelimit"
	cachedName    = "ratelimit, local cache"
	echoName      = "echo"
)

// The rules that stint and envoyproxy/ratelimit both read.
const (
	rlsDomain  = "bench"
	allowedKey = "allowed"
	deniedKey  = "denied"
	rlsRules   = `domain: bench
descriptors:
  - {key: allowed, rate_limit: {unit: hour, requests_per_unit: 4000000000}}
  - {key: denied, rate_limit: {unit: hour, requests_per_unit: 1}}
`
)

// localCache is the size of ratelimit's local cache, in bytes, as in the example in its
// documentation.
const localCache = 1 << 20

// maxConnections is the number of connections to each service.
const maxConnections = 8

// services holds servers of Envoy's rate limit service, and connections to them.
type services struct {
	list  []*service
	conns []*grpc.ClientConn
}

type service struct {
	name    string
	process *process.Process
	redis   *process.Process // nil if the service has none
	clients []rls.RateLimitServiceClient
}

func startServices(ctx context.Context, p *programs, rack *process.Rack) *services {
	all := &services{}
	stint := all.startStint(ctx, p, rack)
	if _, err := os.Stat(p.ratelimit); err == nil {
		all.startRatelimit(ctx, p, rack, ratelimitName, 0)
		all.startRatelimit(ctx, p, rack, cachedName, localCache)
	}
	all.startEcho(ctx, rack, stint)
	return all
}

func (all *services) startStint(ctx context.Context, p *programs, rack *process.Rack) *service {
	rules := rack.Write("rules/bench.yaml", rlsRules)
	redis := rack.Redis(ctx)
	daemon := p.start(ctx, rack, "serve", "--grpc", generous, "redis://"+redis.Address,
		"--envoy-config", filepath.Dir(rules), "--http", "")
	return all.add(stintName, daemon, redis)
}

func (all *services) startRatelimit(ctx context.Context, p *programs, rack *process.Rack, name string,
	cache int) {
	redis := rack.Redis(ctx)
	var addresses, ports [3]string
	for i := range addresses {
		addresses[i] = process.FreeAddress()
		_, ports[i], _ = net.SplitHostPort(addresses[i])
	}
	rules := rack.Write("runtime/config/bench.yaml", rlsRules)
	daemon := rack.Start(ctx, addresses[0], []string{
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1", "GRPC_PORT=" + ports[0], "PORT=" + ports[1],
		"DEBUG_PORT=" + ports[2],
		"RUNTIME_ROOT=" + filepath.Dir(filepath.Dir(rules)), "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false",
		"USE_STATSD=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.Address, "LOCAL_CACHE_SIZE_IN_BYTES=" + strconv.Itoa(cache),
	}, p.ratelimit)
	all.add(name, daemon, redis)
}

// startEcho starts the echo with responses that it gets from stint.
func (all *services) startEcho(ctx context.Context, rack *process.Rack, stint *service) {
	args := []string{bareCommand}
	for _, key := range []string{allowedKey, deniedKey} {
		var answer *rls.RateLimitResponse
		for range 2 { // a limit of one denies the second request
			answer = contest.Must(stint.clients[0].ShouldRateLimit(ctx, questions(key, 1)[0]))
		}
		data := contest.Must(proto.Marshal(answer))
		path := rack.Write(key+".message", string(data))
		args = append(args, "-"+key, path)
	}
	address := process.FreeAddress()
	self := contest.Must(os.Executable())
	p := rack.Start(ctx, address, nil, self, append(args, "-grpc", address)...)
	all.add(echoName, p, nil)
}

// add connects to a service.
func (all *services) add(name string, p, redis *process.Process) *service {
	s := &service{name: name, process: p, redis: redis}
	for range maxConnections {
		conn := contest.Must(grpc.NewClient(p.Address, grpc.WithTransportCredentials(insecure.NewCredentials())))
		all.conns = append(all.conns, conn)
		s.clients = append(s.clients, rls.NewRateLimitServiceClient(conn))
	}
	all.list = append(all.list, s)
	return s
}

func (all *services) close() {
	for _, conn := range all.conns {
		conn.Close()
	}
}

func (all *services) names() []string {
	var names []string
	for _, s := range all.list {
		names = append(names, s.name)
	}
	return names
}

func (all *services) has(name string) bool { return slices.Contains(all.names(), name) }

// contenders returns a contender for each service. The contender sends the requests in turn to the
// service, over the given number of connections.
func (all *services) contenders(connections int, requests []*rls.RateLimitRequest) []contender {
	var list []contender
	for _, s := range all.list {
		list = append(list, contender{s.name, s.ask(connections, requests)})
	}
	return list
}

// patience is the timeout of a call, which no call should reach.
const patience = 5 * time.Second

func (s *service) ask(connections int, requests []*rls.RateLimitRequest) contest.Call {
	var next atomic.Uint64
	return func(ctx context.Context, caller int) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, patience) // Envoy's calls have a deadline, too
		defer cancel()
		which := int(next.Add(1) % uint64(len(requests)))
		answer, err := s.clients[caller%connections].ShouldRateLimit(ctx, requests[which])
		if err != nil {
			return false, err
		}
		if len(answer.GetStatuses()) != 1 || answer.GetStatuses()[0].GetCurrentLimit() == nil {
			return false, errors.New("no limit in the answer: " + fmt.Sprint(answer))
		}
		return answer.GetOverallCode() == rls.RateLimitResponse_OK, nil
	}
}

// questions returns requests for n values of a key.
func questions(key string, n int) []*rls.RateLimitRequest {
	list := make([]*rls.RateLimitRequest, n)
	for i := range list {
		list[i] = question(key, i)
	}
	return list
}

func question(key string, value int) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{
		Domain: rlsDomain,
		Descriptors: []*ratelimit.RateLimitDescriptor{
			{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: strconv.Itoa(value)}}},
		},
	}
}
