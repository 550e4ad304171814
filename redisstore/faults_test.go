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
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

// callerEnv makes this test binary a process that calls a limiter and prints how many calls were
// allowed: URL, limit, goroutines, calls of each, apart by "|".
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
	s, err := redisstore.Open(ctx, redisstore.Config{URL: job[0]})
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

// callFrom runs that many processes at once and returns how many of their calls were allowed
// together.
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
	if got := callFrom(t, 4, clusterURL(redistest.StartCluster(t, redistest.NoFailover...)), "100/1h", 50,
		5); got != 100 {
		t.Errorf("%d allowed, want exactly 100", got)
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
	eventually.Nil(t, "the new master is found", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d, err := lim.Allow(ctx, "failover")
		if err == nil && !d.Allowed {
			err = fmt.Errorf("denied: %+v", d)
		}
		return err
	})
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
		{ID: 1, At: 1, Claim: claim, And: make([]stint.Claim, 300)},
		{ID: 1, At: 1, Claim: claim, Others: &stint.OtherStates{At: []int64{1}}},
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

// On a Cluster, a request on several subjects that is repeated by its id is allowed and charged
// once everywhere, even if a subject has no room any more.
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
