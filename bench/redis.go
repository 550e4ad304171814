package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
)

// redisServer is a Redis server without persistence that runs until Close.
type redisServer struct {
	addr  string
	admin rueidis.Client
	rack  *process.Rack
}

// startRedis starts a Redis server on a free port, with additional arguments.
func startRedis(ctx context.Context, args ...string) *redisServer {
	s := &redisServer{rack: process.NewRack()}
	if err := contest.Catch(func() {
		s.addr = s.rack.Redis(ctx, args...).Address
		s.admin = contest.Must(rueidis.NewClient(clientOption(s.addr)))
	}); err != nil {
		s.rack.Stop()
		contest.OK(err)
	}
	return s
}

func clientOption(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true}
}

func (s *redisServer) Close() {
	s.admin.Close()
	s.rack.Stop()
}

func (s *redisServer) do(ctx context.Context, args ...string) rueidis.RedisResult {
	return s.admin.Do(ctx, s.admin.B().Arbitrary(args...).Build())
}

// fields sends a command and returns the fields of its reply, which has a field on each line.
func (s *redisServer) fields(ctx context.Context, args ...string) map[string]string {
	text := strings.TrimPrefix(contest.Must(s.do(ctx, args...).ToString()), "txt:") // the prefix of a verbatim string
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// cpu returns the processor time that the server has used, in seconds.
func (s *redisServer) cpu(ctx context.Context) (sum float64) {
	fields := s.fields(ctx, "INFO", "cpu")
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		sum += contest.Must(strconv.ParseFloat(fields[name], 64))
	}
	return sum
}

// await waits until a condition is true, for half a minute at most.
func await(failure string, ready func() bool) {
	for range 600 {
		if ready() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	contest.Failf("%s", failure)
}
