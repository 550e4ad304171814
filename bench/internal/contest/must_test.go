package contest_test

import (
	"errors"
	"testing"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// TestCatch: an error ends what is called, after its deferred calls; any other panic goes on.
func TestCatch(t *testing.T) {
	broken := errors.New("broken")
	closed, after := false, false
	err := contest.Catch(func() {
		defer func() { closed = true }()
		contest.OK(nil)
		if got := contest.Must(7, nil); got != 7 {
			t.Errorf("got %d, want 7", got)
		}
		contest.Failf("step: %w", broken)
		after = true
	})
	if !errors.Is(err, broken) || err.Error() != "step: broken" || !closed || after {
		t.Errorf("got %v, closed %v, went on %v", err, closed, after)
	}
	if err := contest.Catch(func() {}); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	defer func() {
		if got := recover(); got != "another" {
			t.Errorf("recovered %v", got)
		}
	}()
	_ = contest.Catch(func() { panic("another") })
}
