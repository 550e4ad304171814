package envoyrls_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

const hundredADay = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 100}}]"

// TestRefundElsewhere gives back through one process what another was charged for.
func TestRefundElsewhere(t *testing.T) {
	server := redistest.Start(t)
	config := parse(t, hundredADay)
	failure := stint.FailurePolicy{Budget: 5 * time.Second}
	for _, window := range []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed} {
		open := func() *envoyrls.Service {
			store := behindStack(t, inRedis(t, server, window.String()), failure)
			return newService(t, store, config, envoyrls.Options{Window: window, Failure: failure})
		}
		ours, theirs := open(), open()
		for i, step := range []struct {
			service *envoyrls.Service
			hits    int64
			want    string
		}{
			{ours, 60, "OK: OK 40 of 100/DAY"},
			{theirs, -50, "OK: OK 90 of 100/DAY"},
			{theirs, 20, "OK: OK 70 of 100/DAY"},
			{ours, -25, "OK: OK 95 of 100/DAY"},
			{theirs, -1000, "OK: OK 100 of 100/DAY"},
			{ours, -1, "OK: OK 100 of 100/DAY"},
			{ours, 100, "OK: OK 0 of 100/DAY"},
			{theirs, -3, "OK: OK 3 of 100/DAY"},
			{ours, 3, "OK: OK 0 of 100/DAY"},
		} {
			response, err := step.service.ShouldRateLimit(t.Context(), own(0, step.hits, ask("d", "k=1")))
			if err != nil {
				t.Fatal(err)
			}
			if got := show(response); got != step.want {
				t.Errorf("%v: step %d: got %s, want %s", window, i+1, got, step.want)
			}
		}
	}
}

// TestRefundOldestFirst leaves the newest hits for as long as they would have counted.
func TestRefundOldestFirst(t *testing.T) {
	at := newClock(noon)
	service := newService(t, inMemory(t, at.now), parse(t, tenASecond), envoyrls.Options{Now: at.now})
	for i, step := range []struct {
		hits int64
		want string
	}{
		{4, "OK: OK 6 of 10/SECOND"},
		{6, "OK: OK 0 of 10/SECOND"},
		{-5, "OK: OK 5 of 10/SECOND"},
		{0, "OK: OK 5 of 10/SECOND"}, // the first four have left, but were given back before
		{0, "OK: OK 10 of 10/SECOND"},
	} {
		response, err := service.ShouldRateLimit(t.Context(), own(0, step.hits, ask("d", "a=1")))
		if err != nil {
			t.Fatal(err)
		}
		if got := show(response); got != step.want {
			t.Errorf("step %d: got %s, want %s", i+1, got, step.want)
		}
		at.advance(400 * time.Millisecond)
	}
}

// idle is a store that takes a while over commands.
type idle struct {
	stint.Store
	command time.Duration
}

func (s *idle) Command(ctx context.Context, c stint.Command) error {
	select {
	case <-time.After(s.command):
		return s.Store.Command(ctx, c)
	case <-ctx.Done():
		return &stint.StoreError{Op: "command", Kind: stint.KindTimeout, Err: ctx.Err()}
	}
}

// TestLateRefund answers in time, and gives back all the same if the store takes longer than the
// answer.
func TestLateRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := &idle{inMemory(t, nil), 100 * time.Millisecond}
		service := newService(t, store, parse(t, hundredADay), envoyrls.Options{Logger: textLogger(&log)})
		answer := func(n int64) string {
			t.Helper()
			began := time.Now()
			response, err := service.ShouldRateLimit(t.Context(), own(1, n, own(0, n, ask("d", "k=1", "k=2"))))
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > contract.DefaultBudget {
				t.Errorf("it took %v, want at most %v", took, contract.DefaultBudget)
			}
			return show(response)
		}
		answer(60)
		if got, want := answer(-50), "OK: OK 40 of 100/DAY; OK 40 of 100/DAY"; got != want {
			t.Errorf("before the store was done: got %s, want %s", got, want)
		}
		if err := service.Close(); err != nil {
			t.Fatal(err)
		}
		if got, want := answer(0), "OK: OK 90 of 100/DAY; OK 90 of 100/DAY"; got != want {
			t.Errorf("after it: got %s, want %s", got, want)
		}
		if want := "negative hits"; strings.Count(log.String(), want) != 1 {
			t.Errorf("log: got %q, want one line with %q", log.String(), want)
		}
	})
}

// TestF6RefundUnderSkew: whatever the host's clock says, hits are given back.
func TestF6RefundUnderSkew(t *testing.T) {
	for _, window := range []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed} {
		for _, skew := range []time.Duration{-10 * time.Minute, 700 * time.Millisecond,
			10*time.Minute + 700*time.Millisecond} {
			at := newClock(noon)
			service := newService(t, inMemory(t, at.now), parse(t, tenASecond), envoyrls.Options{
				Window: window, Now: func() time.Time { return at.now().Add(skew) },
				Failure: stint.FailurePolicy{Budget: 10 * time.Second}, // else the store may finish after the answer
			})
			for i, step := range []struct {
				hits int64
				want string
			}{
				{6, "OK: OK 4 of 10/SECOND"}, {-5, "OK: OK 9 of 10/SECOND"}, {9, "OK: OK 0 of 10/SECOND"},
			} {
				response, err := service.ShouldRateLimit(t.Context(), own(0, step.hits, ask("d", "a=1")))
				if err != nil {
					t.Fatal(err)
				}
				if got := show(response); got != step.want {
					t.Errorf("%v, skew %v, step %d: got %s, want %s", window, skew, i+1, got, step.want)
				}
			}
		}
	}
}

// gone is a store that does nothing but fail.
type gone struct{ stint.Store }

var errGone = &stint.StoreError{Op: "test", Kind: stint.KindUnreachable, Err: errors.New("gone")}

func (gone) Take(context.Context, stint.Request) (stint.Decision, error) {
	return stint.Decision{}, errGone
}

func (gone) TakeBatch(_ context.Context, batch []*driver.Call) {
	for _, c := range batch {
		c.Err = errGone
	}
}

func (gone) Command(context.Context, stint.Command) error { return errGone }

// TestRefundWithoutStore gives back what was charged in this process alone.
func TestRefundWithoutStore(t *testing.T) {
	for _, window := range []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed} {
		failure := stint.FailurePolicy{Budget: time.Second}
		store := behindStack(t, gone{}, failure)
		service := newService(t, store, parse(t, hundredADay), envoyrls.Options{Window: window, Failure: failure})
		for i, step := range []struct {
			hits int64
			want string
		}{
			{60, "OK: OK 40 of 100/DAY"}, {-50, ""}, {0, "OK: OK 90 of 100/DAY"},
		} {
			response, err := service.ShouldRateLimit(t.Context(), own(0, step.hits, ask("d", "k=1")))
			if err != nil {
				t.Fatal(err)
			}
			if got := show(response); step.want != "" && got != step.want {
				t.Errorf("%v: step %d: got %s, want %s", window, i+1, got, step.want)
			}
		}
	}
}

// Envoy looks with zero hits when a stream begins, and sends what the stream used when it ends:
// that counts, whether or not there is room. Where nobody looks, a denial charges nothing.
func TestHitsOfAStream(t *testing.T) {
	for _, looks := range []bool{true, false} {
		at := newClock(noon)
		service := newService(t, inMemory(t, at.now), parse(t, tenASecond), envoyrls.Options{Now: at.now})
		steps := []struct {
			hits int64
			want string
		}{
			{8, "OK: OK 2 of 10/SECOND"},
			{25, "OVER: OVER 2 of 10/SECOND"},
			{2, "OK: OK 0 of 10/SECOND"},
		}
		if looks {
			steps[1].want = "OVER: OVER 0 of 10/SECOND"
			steps[2].want = "OVER: OVER 0 of 10/SECOND"
			if _, err := service.ShouldRateLimit(t.Context(), own(0, 0, ask("d", "a=1"))); err != nil {
				t.Fatal(err)
			}
		}
		for i, step := range steps {
			response, err := service.ShouldRateLimit(t.Context(), own(0, step.hits, ask("d", "a=1")))
			if err != nil {
				t.Fatal(err)
			}
			if got := show(response); got != step.want {
				t.Errorf("after looks %v, step %d: got %s, want %s", looks, i+1, got, step.want)
			}
		}
		// A window later all of it has left.
		at.advance(1100 * time.Millisecond)
		response, err := service.ShouldRateLimit(t.Context(), own(0, 0, ask("d", "a=1")))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := show(response), "OK: OK 10 of 10/SECOND"; got != want {
			t.Errorf("after looks %v, a second later: got %s, want %s", looks, got, want)
		}
	}
}
