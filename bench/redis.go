package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// redisServer is a redis-server of our own: nothing persisted, gone after Close.
type redisServer struct {
	addr  string
	admin rueidis.Client
	cmd   *exec.Cmd
	dir   string
}

// startRedis starts redis-server on a free port, with further arguments.
func startRedis(ctx context.Context, args ...string) (_ *redisServer, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	listener.Close()
	dir, err := os.MkdirTemp("", "stint-bench-")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no"},
		args...)
	s := &redisServer{addr: addr, dir: dir, cmd: exec.Command("redis-server", args...)}
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for range 100 {
		if s.admin, err = rueidis.NewClient(clientOption(addr)); err == nil {
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, fmt.Errorf("redis-server at %s did not come up: %w", addr, err)
}

func clientOption(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true}
}

func (s *redisServer) Close() {
	if s.admin != nil {
		s.admin.Close()
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	os.RemoveAll(s.dir)
}

func (s *redisServer) do(ctx context.Context, args ...string) rueidis.RedisResult {
	return s.admin.Do(ctx, s.admin.B().Arbitrary(args...).Build())
}

// info returns the fields of one section of INFO.
func (s *redisServer) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.do(ctx, "INFO", section).ToString()
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

func (s *redisServer) infoNumber(ctx context.Context, section string, names ...string) (float64, error) {
	fields, err := s.info(ctx, section)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, name := range names {
		v, err := strconv.ParseFloat(fields[name], 64)
		if err != nil {
			return 0, fmt.Errorf("INFO %s: %s is %q", section, name, fields[name])
		}
		sum += v
	}
	return sum, nil
}

// cpu is the processor time that the server has used, in seconds.
func (s *redisServer) cpu(ctx context.Context) (float64, error) {
	return s.infoNumber(ctx, "cpu", "used_cpu_user", "used_cpu_sys")
}

// scriptTime is the time spent in scripts since the last CONFIG RESETSTAT, in microseconds, and the
// number of calls.
func (s *redisServer) scriptTime(ctx context.Context) (usec, calls float64, err error) {
	fields, err := s.info(ctx, "commandstats")
	if err != nil {
		return 0, 0, err
	}
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
		return 0, 0, errors.New("no script ran")
	}
	return usec, calls, nil
}

// memoryOf is the sum of MEMORY USAGE over the keys that match a pattern.
func (s *redisServer) memoryOf(ctx context.Context, pattern string) (float64, error) {
	keys, err := s.do(ctx, "KEYS", pattern).AsStrSlice()
	if err != nil {
		return 0, err
	}
	if len(keys) == 0 {
		return 0, fmt.Errorf("no key matches %s", pattern)
	}
	sum := int64(0)
	for _, key := range keys {
		n, err := s.do(ctx, "MEMORY", "USAGE", key, "SAMPLES", "0").AsInt64()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return float64(sum), nil
}

// awaitReplica waits until a replica follows the server.
func (s *redisServer) awaitReplica(ctx context.Context) error {
	for range 200 {
		fields, err := s.info(ctx, "replication")
		if err != nil {
			return err
		}
		if strings.Contains(fields["slave0"], "state=online") {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the replica did not come up")
}
