package overrides_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

// onRedis returns a store on Redis, which hashes names if there are keys.
func onRedis(t *testing.T, url string, keys ...[]byte) *redisstore.Store {
	return guardtest.Redis(t, redisstore.Config{URL: url, NameKeys: keys})
}

// startStack starts a process as servers have it.
func startStack(t *testing.T, url string) *process {
	return start(t, guardtest.Stack(t, onRedis(t, url), resilience.Config{}))
}

// number is the number of the first limit of a user.
func (p *process) number(who string) int64 {
	l := p.table.Limits("user:"+who, "free", []stint.Limit{stint.PerHour(2)})
	return l[0].Max
}

// TestUnderLoad: while a customer keeps asking one process, another one raises and lowers it. No
// more is admitted than the limit that was ever in force, and what is used stays. Redis is away for
// a while.
func TestUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	one, two := startStack(t, server.URL()), startStack(t, proxy.URL())
	var admitted, lowest atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				ok, l := two.take("42")
				lowest.Store(l.Max)
				if ok {
					admitted.Add(1)
				}
			}
		})
	}
	testkit.Eventually(t, "2 are admitted", func() bool { return admitted.Load() == 2 })
	one.set(raise("42", stint.PerHour(50)))
	testkit.Eventually(t, "50 are admitted", func() bool { return admitted.Load() == 50 })
	low := raise("42", stint.PerHour(1))
	low.Lower = true
	one.set(low)
	testkit.Eventually(t, "lowered", func() bool { return lowest.Load() == 1 })
	one.set(raise("42", stint.PerHour(55)))
	testkit.Eventually(t, "55 are admitted", func() bool { return admitted.Load() == 55 })
	stop()
	load.Wait()

	// Redis is away: the last known override applies, and no other can be made.
	proxy.Silence()
	one.set(raise("42", stint.PerHour(60)))
	if n := two.number("42"); n != 55 {
		t.Errorf("cut off: got %d, want the last known 55", n)
	}
	proxy.Cut()
	proxy.Restore()
	testkit.Eventually(t, "known after a reconnect", func() bool { return two.number("42") == 60 })
	if n := admitted.Load(); n != 55 {
		t.Errorf("%d admitted, want 55", n)
	}
}

// TestLostAtOnce: Redis loses everything, and before anybody notices a process that starts then
// makes overrides, more than there were. All of them are there in the end, in all processes.
func TestLostAtOnce(t *testing.T) {
	server := redistest.Start(t)
	one, two := start(t, onRedis(t, server.URL())), start(t, onRedis(t, server.URL()))
	one.set(raise("old", stint.PerHour(50)))
	testkit.Eventually(t, "both know it", func() bool { return two.number("old") == 50 })
	store := onRedis(t, server.URL())
	server.Do("FLUSHALL")
	three := start(t, store)
	for i := range 10 {
		three.set(raise(fmt.Sprint(i), stint.PerHour(50)))
	}
	for _, p := range []*process{one, two, three} {
		testkit.Eventually(t, "all are known", func() bool { return p.table.Len() == 11 && p.number("old") == 50 })
	}
}

// TestOlderCopy: an older copy takes the place of Redis, and goes on with another change before a
// process that knows the lost one asks. Both changes are there in the end, in all processes.
func TestOlderCopy(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	one := start(t, onRedis(t, proxy.URL()))
	one.set(raise("a", stint.PerHour(50)))
	keys := []string{"stint:table:{overrides}", "stint:table:{overrides}:changes"}
	for _, key := range keys {
		if done, err := server.Do("COPY", key, key+"-older"); done != "1" || err != nil {
			t.Fatal(done, err)
		}
	}
	one.set(raise("b", stint.PerHour(50)))
	proxy.Silence()
	for _, key := range keys {
		server.Do("COPY", key+"-older", key, "REPLACE")
	}
	two := start(t, onRedis(t, server.URL()))
	two.set(raise("c", stint.PerHour(50)))
	proxy.Cut()
	proxy.Restore()
	for _, p := range []*process{one, two} {
		for _, who := range []string{"a", "b", "c"} {
			testkit.Eventually(t, who+" is known", func() bool { return p.number(who) == 50 })
		}
	}
}

// TestManyChanges: a process that misses more changes than are remembered reads them all.
func TestManyChanges(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	one, two := start(t, onRedis(t, server.URL())), start(t, onRedis(t, proxy.URL()))
	one.set(raise("gone", stint.PerHour(50)))
	testkit.Eventually(t, "the other one knows it", func() bool { return two.number("gone") == 50 })
	proxy.Silence()
	if _, err := one.table.Unset(t.Context(), "user:gone", "free"); err != nil {
		t.Fatal(err)
	}
	all := make([]overrides.Override, 10_500)
	for i := range all {
		all[i] = raise(fmt.Sprint(i), stint.PerHour(50))
	}
	if err := one.table.SetAll(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	proxy.Restore()
	testkit.Eventually(t, "all are known", func() bool { return two.table.Len() == len(all) && two.number("gone") == 2 })
}
