package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

func TestCount(t *testing.T) {
	url := "redis://" + os.Getenv("ADDR")
	pid := os.Getenv("PID")
	c := client(t, url)
	c.Do(context.Background(), c.B().Flushall().Build())
	sliding := func(max int64, w time.Duration) stint.Limit { return stint.Limit{Max: max, Window: w} }
	loads := map[string][]stint.Limit{
		"sliced1": {sliding(1e9, time.Hour)},
		"sliced3": {sliding(1e9, time.Minute), sliding(1e9, time.Hour), sliding(1e9, 24*time.Hour)},
		"exact1":  {sliding(100, time.Minute)},
		"exact3":  {sliding(100, time.Minute), sliding(100, 61*time.Second), sliding(100, 62*time.Second)},
		"tier3":   {sliding(100, time.Minute), sliding(2_000, time.Hour), sliding(50_000, 24*time.Hour)},
		"burst3":  {sliding(100, time.Minute).WithBurst(3), sliding(2_000, time.Hour), sliding(50_000, 24*time.Hour)},
	}
	batch, _ := strconv.Atoi(os.Getenv("BATCH"))
	n := 270
	for _, name := range strings.Split(os.Getenv("LOADS"), ",") {
		s := open(t, url)
		limits := loads[name]
		clock := time.Now().UnixMicro()
		s.SetClock(func() int64 { return clock })
		i := 0
		call := func() {
			calls := make([]*stint.Call, batch)
			for j := range calls {
				i++
				calls[j] = &stint.Call{Request: stint.Request{Claim: stint.Claim{Subject: fmt.Sprintf("user:%08d", i%n), Scope: name, Limits: limits, Cost: 1}}}
				clock += 60_000_000 / 50 / int64(n)
			}
			s.TakeBatch(context.Background(), calls)
			if calls[0].Err != nil || !calls[0].Decision.Allowed {
				t.Fatal(calls[0].Err, calls[0].Decision)
			}
		}
		for range 60 * n / batch {
			call()
		}
		exec.Command("callgrind_control", "-z", pid).Run()
		for range 20 * n / batch {
			call()
		}
		out, err := exec.Command("callgrind_control", "-e", "Ir", pid).CombinedOutput()
		if err != nil {
			t.Fatal(err, string(out))
		}
		total := 0.0
		for _, l := range strings.Split(string(out), "\n") {
			f := strings.Fields(l)
			if len(f) > 0 && strings.HasPrefix(strings.TrimSpace(l), "Th ") || strings.Contains(l, "Totals") {
				_ = f
			}
		}
		_ = total
		fmt.Println(name, batch, strings.TrimSpace(string(out)), 20*n/batch*batch)
	}
}
