package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// callerEnv makes this test binary a process that calls a limiter and prints how
// many calls were allowed: URL, limit, goroutines, calls of each, apart by "|".
const callerEnv = "STINT_TEST_CALLER"

func TestMain(m *testing.M) {
	if job := os.Getenv(callerEnv); job != "" {
		if err := callLimiter(strings.Split(job, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func callLimiter(job []string) error {
	ctx := context.Background()
	s, err := redisstore.Open(ctx, job[0])
	if err != nil {
		return err
	}
	defer s.Close()
	limit, err := stint.ParseLimit(job[1])
	if err != nil {
		return err
	}
	lim, err := stint.New(s, limit)
	if err != nil {
		return err
	}
	goroutines, _ := strconv.Atoi(job[2])
	calls, _ := strconv.Atoi(job[3])
	var allowed atomic.Int64
	var failure atomic.Pointer[error]
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range calls {
				d, err := lim.Allow(ctx, "shared")
				if err != nil {
					failure.Store(&err)
					return
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	fmt.Println("allowed", allowed.Load())
	return nil
}

// callFrom runs that many processes at once and returns how many of their calls
// were allowed together.
func callFrom(t *testing.T, processes int, url, limit string, goroutines, calls int) int64 {
	t.Helper()
	var total atomic.Int64
	var wg sync.WaitGroup
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d|%d", callerEnv, url, limit, goroutines, calls))
		cmd.Stderr = os.Stderr
		wg.Go(func() {
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("caller: %v", err)
				return
			}
			for line := range strings.Lines(string(out)) {
				var n int64
				if _, err := fmt.Fscanf(bufio.NewReader(strings.NewReader(line)), "allowed %d", &n); err == nil {
					total.Add(n)
				}
			}
		})
	}
	wg.Wait()
	return total.Load()
}

// F4: 4 processes with 50 goroutines each on one key admit exactly the limit.
func TestProcessesShareOneLimit(t *testing.T) {
	server := redistest.Start(t)
	for _, test := range []struct {
		limit string
		want  int64
	}{
		{"100/1h", 100},
		{"1000/1h", 1000},
		{"300/366d burst 300 bucket", 300},
		{"300/1d fixed", 300},
		{"300/1h concurrency", 300},
	} {
		server.CLI(t, "FLUSHALL")
		if got := callFrom(t, 4, server.URL(), test.limit, 50, 10); got != test.want {
			t.Errorf("%s: %d allowed, want exactly %d", test.limit, got, test.want)
		}
	}
}

// Four processes share a limit of four.
func TestProcessesShareFew(t *testing.T) {
	if got := callFrom(t, 4, redistest.Start(t).URL(), "4/1m", 5, 2); got != 4 {
		t.Errorf("%d allowed, want exactly 4", got)
	}
}

// F4 on a Cluster.
func TestProcessesShareOneLimitOnACluster(t *testing.T) {
	if got := callFrom(t, 4, clusterURL(redistest.StartCluster(t)), "100/1h", 50, 5); got != 100 {
		t.Errorf("%d allowed, want exactly 100", got)
	}
}

// F6: decisions are stamped with the server's time; that of this process, ten
// minutes away from it either way, plays no part.
func TestOnlyTheServersClockCounts(t *testing.T) {
	server := redistest.StartFakeTime(t)
	s := open(t, server.URL())
	lim, err := stint.New(s, stint.PerMinute(3))
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		server.SetClockOffset(t, offset)
		subject := "skewed:" + offset.String()
		for i := range 4 {
			before := time.Now()
			d, err := lim.Allow(t.Context(), subject)
			if err != nil {
				t.Fatal(err)
			}
			if want := i < 3; d.Allowed != want {
				t.Errorf("offset %v, call %d: allowed %v, want %v", offset, i, d.Allowed, want)
			}
			if !d.Allowed {
				continue
			}
			at := time.UnixMicro(d.Charge.At).Add(-offset)
			if at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
				t.Errorf("offset %v: charged at %v by this process's clock, want its own call at %v", offset, at, before)
			}
		}
	}
}

// F7: the server's clock steps by an hour either way; nobody is locked out for
// longer than a window, nor gets more than one capacity extra.
func TestServersClockSteps(t *testing.T) {
	const window = time.Second
	server := redistest.StartFakeTime(t)
	s := open(t, server.URL())
	for _, limit := range []stint.Limit{
		stint.Per(5, window), stint.Per(500, window), stint.TokenBucket(5, 5, window), {Max: 5, Window: window, Algorithm: stint.Fixed},
	} {
		for _, step := range []time.Duration{-time.Hour, time.Hour} {
			lim, err := stint.New(s, limit)
			if err != nil {
				t.Fatal(err)
			}
			server.SetClockOffset(t, 0)
			subject := "stepped:" + limit.String() + step.String()
			fill := func() int64 {
				d, err := lim.AllowN(t.Context(), subject, limit.Max)
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					return limit.Max
				}
				if d.RetryAfter > window+window/stint.Resolution+time.Millisecond {
					t.Errorf("%v, step %v: locked out for %v, want at most a window", limit, step, d.RetryAfter)
				}
				return 0
			}
			start := time.Now()
			total := fill()
			server.SetClockOffset(t, step)
			total += fill() + fill()
			windows := int64(time.Since(start) / window) // more if the machine is very slow
			if total > (2+windows)*limit.Max {
				t.Errorf("%v, step %v: %d units, want at most one capacity extra", limit, step, total)
			}
			deadline := time.Now().Add(10 * window)
			for fill() == 0 {
				if time.Now().After(deadline) {
					t.Fatalf("%v, step %v: still locked out", limit, step)
				}
				time.Sleep(window / 10)
			}
		}
	}
}

// F8: scripts vanish again and again under load; no caller notices.
func TestScriptFlushUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	lim, err := stint.New(s, stint.Per(100, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var flushing, calling sync.WaitGroup
	flushing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				if _, err := server.Do("SCRIPT", "FLUSH"); err != nil {
					t.Error(err)
				}
			}
		}
	})
	var allowed atomic.Int64
	for range 8 {
		calling.Go(func() {
			for range 500 {
				d, err := lim.Allow(t.Context(), "flushed")
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	calling.Wait()
	close(stop)
	flushing.Wait()
	if allowed.Load() != 100 {
		t.Errorf("%d allowed, want exactly 100", allowed.Load())
	}
}

// F15, F24d: whatever is planted under our keys heals, without an error, without a
// lasting denial, and without a key that stays for ever.
func TestPlantedKeysHeal(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	limits := []stint.Limit{
		stint.PerMinute(3), stint.Per(1000, time.Hour), stint.TokenBucket(3, 3, time.Minute),
		{Max: 3, Window: time.Minute, Algorithm: stint.Fixed}, stint.AtOnce(3, time.Minute),
	}
	bans := stint.BanPolicy{After: 3, Within: time.Minute, Durations: []time.Duration{time.Second}}
	lim, err := stint.New(s, stint.PerMinute(3), stint.WithBans(bans))
	if err != nil {
		t.Fatal(err)
	}
	ours := []string{"ban", "strikes", "ids", "settled"}
	for i := range limits {
		ours = append(ours, limits[i].ID())
	}
	plants := map[string][]string{
		"text":   {"SET", "", "hello"},
		"empty":  {"SET", "", ""},
		"number": {"SET", "", "12345678901234567890"},
		"log":    {"SET", "", "L" + strings.Repeat("\xff", 40)},
		"head":   {"SET", "", "L\x01\x01\x08\x08\x00\xff\xff" + strings.Repeat("\x01", 30)},
		"bucket": {"SET", "", "B" + strings.Repeat("\xff", 40)},
		"zeros":  {"SET", "", "B" + strings.Repeat("\x00", 23)},
		"ban":    {"SET", "", "N" + strings.Repeat("\x00", 22)},
		"list":   {"RPUSH", "", "a", "b"},
		"hash":   {"HSET", "", "a", "b"},
		"set":    {"SADD", "", "a"},
		"zset":   {"ZADD", "", "1", "a"},
		"stream": {"XADD", "", "*", "a", "b"},
	}
	for name, plant := range plants {
		subject := "planted:" + name
		for _, key := range ours {
			args := append([]string{plant[0], "stint:{" + subject + "}:" + key}, plant[2:]...)
			server.CLI(t, args...)
		}
		for i := range 5 {
			d, err := lim.Take(t.Context(), stint.Request{
				Claim: stint.Claim{Subject: subject, Limits: limits, Cost: 1}, ID: "request " + strconv.Itoa(i),
			})
			if err != nil {
				t.Errorf("%s: take %d: %v", name, i, err)
				break
			}
			if want := i < 3; d.Allowed != want {
				t.Errorf("%s: take %d: allowed %v, want %v: %+v", name, i, d.Allowed, want, d.States())
			}
			if i == 2 {
				if _, err := lim.Settle(t.Context(), d, 1); err != nil {
					t.Errorf("%s: settle: %v", name, err)
				}
			}
		}
	}
	wantTTLs(t, client(t, server.URL()))
}

// F15: a key of ours that lost its TTL gets one again, within an eighth of its
// span of being used.
func TestLostTTLHeals(t *testing.T) {
	const window = 200 * time.Millisecond
	server := redistest.Start(t)
	s := open(t, server.URL())
	for _, limit := range []stint.Limit{
		stint.Per(100, window), stint.Per(100_000, window), stint.TokenBucket(100, 100, window),
		{Max: 100_000, Window: window, Algorithm: stint.Fixed}, stint.AtOnce(100_000, window),
	} {
		lim, err := stint.New(s, limit)
		if err != nil {
			t.Fatal(err)
		}
		key := "stint:{persistent}:" + limit.ID()
		if _, err := lim.Allow(t.Context(), "persistent"); err != nil {
			t.Fatal(err)
		}
		server.CLI(t, "PERSIST", key)
		for deadline := time.Now().Add(10 * time.Second); server.CLI(t, "PTTL", key) == "-1"; time.Sleep(window / 20) {
			if time.Now().After(deadline) {
				t.Fatalf("%v: still no TTL", limit)
			}
			if _, err := lim.Allow(t.Context(), "persistent"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A master dies under Sentinel: the store finds the new one by itself.
func TestSentinelFailover(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	s := open(t, sentinelURL(sentinel))
	lim, err := stint.New(s, stint.PerHour(1000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lim.Allow(t.Context(), "failover"); err != nil {
		t.Fatal(err)
	}
	sentinel.Master.Kill()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		d, err := lim.Allow(ctx, "failover")
		cancel()
		if err == nil && d.Allowed {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still failing: %v", err)
		}
	}
}

// Whatever is passed as a charge is refused or changes nothing.
func TestOddChargesAreHarmless(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	claim := stint.Claim{Subject: "odd", Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}
	for _, c := range []stint.Charge{
		{},
		{ID: 1},
		{ID: 1, At: -1, Claim: claim},
		{ID: 1, At: 1 << 60, Claim: claim},
		{ID: 1, At: 1, Claim: claim, Rest: &stint.Rest{And: make([]stint.Claim, 300)}},
		{ID: 1, At: 1, Claim: claim, Rest: &stint.Rest{AndAt: []int64{1}}},
		{ID: 1, At: 1, Claim: claim},
	} {
		for kind := range stint.AmendmentKind(5) {
			changed, err := s.Amend(t.Context(), c, stint.Amendment{Kind: kind})
			var invalid *stint.InvalidError
			if changed || err != nil && !errors.As(err, &invalid) {
				t.Errorf("%+v: changed %v, %v", c, changed, err)
			}
		}
	}
}

// On a Cluster, a request on several subjects that is repeated by its id is allowed
// and charged once everywhere, even if a subject has no room any more.
func TestRepeatsAcrossNodes(t *testing.T) {
	url := clusterURL(redistest.StartCluster(t))
	s := open(t, url)
	one := []stint.Limit{stint.PerHour(1)}
	for i := range 20 { // some of them on different nodes
		r := stint.Request{Claim: stint.Claim{Subject: fmt.Sprint("a", i), Limits: one, Cost: 1}, ID: "once"}
		for j := range 3 {
			r.And = append(r.And, stint.Claim{Subject: fmt.Sprint("b", i, j), Limits: one, Cost: 1})
		}
		for n := range 3 {
			d, err := s.Take(t.Context(), r)
			if err != nil || !d.Allowed || d.Repeat != (n > 0) {
				t.Fatalf("call %d: %+v, %v", n, d, err)
			}
			for _, u := range d.Usages() {
				if u.Used != 1 {
					t.Fatalf("call %d: %+v", n, d.Usages())
				}
			}
		}
		r.ID = "again"
		if d, err := s.Take(t.Context(), r); err != nil || d.Allowed {
			t.Fatalf("another id: %+v, %v", d, err)
		}
	}
	wantTTLs(t, client(t, url))
}
