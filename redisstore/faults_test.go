package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

// callerEnv makes this test binary a process that calls a limiter: the URL, goroutines and calls of
// each, apart by "|". It prints a line when it is ready, and for each limit that it reads how many
// calls were allowed.
const callerEnv = "STINT_TEST_CALLER"

func TestMain(m *testing.M) {
	if job := os.Getenv(callerEnv); job != "" {
		if err := callLimiter(strings.Split(job, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(redistest.Main(m))
}

func callLimiter(job []string) error {
	s, err := redisstore.OpenNow(context.Background(), redisstore.Config{URL: job[0]})
	if err != nil {
		return err
	}
	defer s.Close()
	goroutines, _ := strconv.Atoi(job[1])
	calls, _ := strconv.Atoi(job[2])
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		allowed, err := callAtOnce(s, lines.Text(), goroutines, calls)
		if err != nil {
			return err
		}
		fmt.Println(allowed)
	}
	return nil
}

// callAtOnce returns how many calls from that many goroutines a limit allowed.
func callAtOnce(s *redisstore.Store, text string, goroutines, calls int) (int64, error) {
	limit, err := stint.ParseLimit(text)
	if err != nil {
		return 0, err
	}
	lim, err := stint.New(s, limit)
	if err != nil {
		return 0, err
	}
	var allowed atomic.Int64
	var failure atomic.Pointer[error]
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range calls {
				d, err := lim.Allow(context.Background(), text)
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
		return 0, *err
	}
	return allowed.Load(), nil
}

// caller is a process that calls a limiter.
type caller struct {
	limits  io.Writer
	answers *bufio.Scanner
}

func (c caller) answer(t *testing.T) string {
	t.Helper()
	if !c.answers.Scan() {
		t.Fatalf("a caller has ended: %v", c.answers.Err())
	}
	return c.answers.Text()
}

// startCallers returns when four processes can call.
func startCallers(t *testing.T, url string, goroutines, calls int) []caller {
	t.Helper()
	var callers []caller
	for range 4 {
		cmd := exec.Command(os.Args[0])
		// The race detector would wait for a second when the process ends.
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=10",
			fmt.Sprintf("%s=%s|%d|%d", callerEnv, url, goroutines, calls))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close() // and it ends
			if err := cmd.Wait(); err != nil {
				t.Errorf("caller: %v", err)
			}
		})
		callers = append(callers, caller{in, bufio.NewScanner(out)})
	}
	for _, c := range callers {
		c.answer(t)
	}
	return callers
}

// allowed lets all processes call at once, and returns how many of their calls were allowed.
func allowed(t *testing.T, callers []caller, limit string) (total int64) {
	t.Helper()
	for _, c := range callers {
		if _, err := fmt.Fprintln(c.limits, limit); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range callers {
		n, err := strconv.ParseInt(c.answer(t), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

// F4: 4 processes with 50 goroutines each on one key admit exactly the limit.
func TestProcessesShareOneLimit(t *testing.T) {
	callers := startCallers(t, redistest.Start(t).URL(), 50, 10)
	for _, test := range []struct {
		limit string
		want  int64
	}{
		{"4/1h", 4},
		{"100/1h", 100},
		{"1000/1h", 1000},
		{"300/366d burst 300 bucket", 300},
		{"300/1d fixed", 300},
		{"300/1h concurrency", 300},
	} {
		if got := allowed(t, callers, test.limit); got != test.want {
			t.Errorf("%s: %d allowed, want exactly %d", test.limit, got, test.want)
		}
	}
}

// F4 on a Cluster.
func processesShareOneLimit(t *testing.T, cluster *redistest.Cluster) {
	if got := allowed(t, startCallers(t, clusterURL(cluster), 50, 5), "100/1h"); got != 100 {
		t.Errorf("%d allowed, want exactly 100", got)
	}
}

// A master dies under Sentinel: the store finds the new one by itself.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
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
	testkit.EventuallyNil(t, "the new master is found", func() error {
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
		driver.NewCharge(nil, driver.ChargeData{ID: 1}),
		driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 1, At: -1}),
		driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 1, At: 1 << 60}),
		driver.NewCharge(slices.Repeat([]stint.Claim{claim}, 300), driver.ChargeData{ID: 1, At: 1}),
		driver.NewCharge([]stint.Claim{claim},
			driver.ChargeData{ID: 1, At: 1, Others: &driver.OtherStates{At: []int64{1}}}),
		driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 1, At: 1}),
	} {
		for kind := range stint.AmendmentKind(5) {
			changed, err := s.Amend(t.Context(), c, stint.Amendment{Kind: kind})
			var invalid *stint.InvalidError
			if changed.Changed || err != nil && !errors.As(err, &invalid) {
				t.Errorf("%+v: changed %v, %v", c, changed, err)
			}
		}
	}
}
