package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/storetest"
)

func open(t *testing.T, url string, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// client is a connection of the test's own, to look behind the store's back.
func client(t *testing.T, url string) rueidis.Client {
	t.Helper()
	o, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DisableCache = true
	c, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// age lets every key of a server grow older by d, as its TTL would see it: tests
// move our clock, not that of Redis.
const age = `
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left < 0 then return redis.error_reply('no TTL on ' .. key) end
  redis.call('PEXPIRE', key, math.min(left - tonumber(ARGV[1]), 1e12))
end
return 'OK'`

// clocked returns a harness over a store whose clock, and the TTLs with it, the
// test moves.
func clocked(t *testing.T, s *redisstore.Store, client rueidis.Client) storetest.Harness {
	clock := storetest.NewClock()
	s.SetClock(clock.Micros)
	everywhere := func(args ...string) {
		t.Helper()
		for addr, node := range client.Nodes() {
			err := node.Do(context.Background(), node.B().Arbitrary(args...).Build()).Error()
			if err != nil && !strings.HasPrefix(err.Error(), "READONLY") {
				t.Fatalf("%s: %v: %v", addr, args[0], err)
			}
		}
	}
	clock.OnAdvance(func(d time.Duration) {
		everywhere("EVAL", age, "0", strconv.FormatInt(d.Milliseconds(), 10))
	})
	return storetest.Harness{
		Store: s,
		Clock: clock,
		Disturbances: map[string]func(testing.TB){
			"script flush": func(testing.TB) { everywhere("SCRIPT", "FLUSH") },
		},
	}
}

func TestSingle(t *testing.T) {
	server := redistest.Start(t)
	s, c := open(t, server.URL()), client(t, server.URL())
	fresh := func(t *testing.T) storetest.Harness { return clocked(t, s, c) }
	t.Run("examples", func(t *testing.T) { storetest.Run(t, storetest.Exact, fresh) })
	t.Run("model", func(t *testing.T) { storetest.Model(t, fresh) })
	t.Run("concurrent", func(t *testing.T) { storetest.Linearizable(t, open(t, server.URL())) })
	wantTTLs(t, c)
}

func TestSentinel(t *testing.T) {
	url := sentinelURL(redistest.StartSentinel(t))
	s, c := open(t, url), client(t, url)
	storetest.Run(t, storetest.Exact, func(t *testing.T) storetest.Harness { return clocked(t, s, c) })
	wantTTLs(t, c)
}

func TestCluster(t *testing.T) {
	url := clusterURL(redistest.StartCluster(t))
	s, c := open(t, url), client(t, url)
	fresh := func(t *testing.T) storetest.Harness {
		h := clocked(t, s, c)
		h.SplitSubjects = true
		return h
	}
	t.Run("examples", func(t *testing.T) { storetest.Run(t, storetest.Exact, fresh) })
	t.Run("concurrent", func(t *testing.T) { storetest.Linearizable(t, open(t, url)) })
	wantTTLs(t, c)
}

func sentinelURL(s *redistest.Sentinel) string {
	return urlOf(s.Addrs()) + "&master_set=" + s.MasterName
}

func clusterURL(c *redistest.Cluster) string { return urlOf(c.Addrs()) }

func urlOf(addrs []string) string {
	return "redis://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")
}

// wantTTLs fails the test if a key has no TTL: nothing of ours may stay for ever.
func wantTTLs(t *testing.T, c rueidis.Client) {
	t.Helper()
	for addr, node := range c.Nodes() {
		keys, err := node.Do(context.Background(), node.B().Keys().Pattern("*").Build()).AsStrSlice()
		if err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		for _, key := range keys {
			left, err := node.Do(context.Background(), node.B().Pttl().Key(key).Build()).AsInt64()
			if moved, ok := rueidis.IsRedisErr(err); ok {
				if _, is := moved.IsMoved(); is {
					continue // a replica lists its master's keys
				}
			}
			if err != nil || left == -1 {
				t.Errorf("%s: key %q has no TTL (%d, %v)", addr, key, left, err)
			}
		}
	}
}
