package redistest

import (
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// goroutineSlack allows for goroutines that the runtime, the testing package and the network poller
// start.
const goroutineSlack = 2

// CheckGoroutines waits up to five seconds for goroutines to end, and fails the test if there are
// still at least three more than `before`, an earlier result of [runtime.NumGoroutine]. Each
// running [Server] has one goroutine, so start servers before counting.
func CheckGoroutines(t testing.TB, before int) {
	t.Helper()
	if err := LeftGoroutines(before); err != nil {
		t.Error(err)
	}
}

// LeftGoroutines is like [CheckGoroutines], but returns an error instead of failing a test, so a
// TestMain can call it.
func LeftGoroutines(before int) error { return checkGoroutines(before, 5*time.Second) }

func checkGoroutines(before int, timeout time.Duration) error {
	return poll(timeout, 10*time.Millisecond, func() error {
		now := runtime.NumGoroutine()
		if now <= before+goroutineSlack {
			return nil
		}
		var stacks strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
			return err
		}
		return fmt.Errorf("redistest: %d goroutines, %d before:\n%s", now, before, stacks.String())
	})
}
