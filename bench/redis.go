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

// redisServer is a redis-server of the bench without persistence, which runs until Close.
type redisServer struct {
	addr  string
	admin rueidis.Client
	rack  *process.Rack
}

// startRedis starts redis-server on a free port, with further arguments.
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

// info returns the fields of one section of INFO.
func (s *redisServer) info(ctx context.Context, section string) map[string]string {
	return s.fields(ctx, "INFO", section)
}

// fields returns the fields of a command's reply, one on each line.
func (s *redisServer) fields(ctx context.Context, args ...string) map[string]string {
	text := strings.TrimPrefix(contest.Must(s.do(ctx, args...).ToString()), "txt:") // a verbatim string
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

func (s *redisServer) infoNumber(ctx context.Context, section string, names ...string) float64 {
	fields := s.info(ctx, section)
	sum := 0.0
	for _, name := range names {
		v, err := strconv.ParseFloat(fields[name], 64)
		if err != nil {
			contest.Failf("INFO %s: %s is %q", section, name, fields[name])
		}
		sum += v
	}
	return sum
}

// cpu returns the processor time that the server has used, in seconds.
func (s *redisServer) cpu(ctx context.Context) float64 {
	return s.infoNumber(ctx, "cpu", "used_cpu_user", "used_cpu_sys")
}

// scriptTime returns the time spent in scripts since the last CONFIG RESETSTAT, in microseconds,
// and the number of calls.
func (s *redisServer) scriptTime(ctx context.Context) (usec, calls float64) {
	fields := s.info(ctx, "commandstats")
	for _, command := range []string{"eval", "evalsha", "fcall"} {
		for pair := range strings.SplitSeq(fields["cmdstat_"+command], ",") {
			name, value, _ := strings.Cut(pair, "=")
			v, _ := strconv.ParseFloat(value, 64)
			switch name {
			case "usec":
				usec += v
			case "calls":
				calls += v
			}
		}
	}
	if calls == 0 {
		contest.Failf("no script ran")
	}
	return usec, calls
}

// memoryOf returns the sum of MEMORY USAGE over the keys that match a pattern.
func (s *redisServer) memoryOf(ctx context.Context, pattern string) float64 {
	keys := contest.Must(s.do(ctx, "KEYS", pattern).AsStrSlice())
	if len(keys) == 0 {
		contest.Failf("no key matches %s", pattern)
	}
	sum := int64(0)
	for _, key := range keys {
		sum += contest.Must(s.do(ctx, "MEMORY", "USAGE", key, "SAMPLES", "0").AsInt64())
	}
	return float64(sum)
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
