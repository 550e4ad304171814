package envoyrls_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// slow is a store that answers after a while, if it is waited for. A negative while is for ever.
type slow struct {
	stint.Store
	take, amend time.Duration
}

func (s *slow) wait(ctx context.Context, op string, d time.Duration) error {
	var after <-chan time.Time
	if d >= 0 {
		after = time.After(d)
	}
	select {
	case <-after:
		return nil
	case <-ctx.Done():
		return &stint.StoreError{Op: op, Kind: stint.KindTimeout, Err: ctx.Err()}
	}
}

func (s *slow) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if err := s.wait(ctx, "take", s.take); err != nil {
		return stint.Decision{}, err
	}
	return s.Store.Take(ctx, r)
}

func (s *slow) TakeBatch(ctx context.Context, batch []*driver.Call) {
	for _, c := range batch {
		c.Decision, c.Err = s.Take(ctx, c.Request)
	}
}

func (s *slow) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if err := s.wait(ctx, "amend", s.amend); err != nil {
		return stint.Amended{}, err
	}
	return s.Store.Amend(ctx, c, a)
}

// TestBudget answers within what Envoy waits for, however many questions a request takes and
// however slow the store is.
func TestBudget(t *testing.T) {
	const patience = 20 * time.Millisecond // Envoy's default
	const config = `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: one, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: none, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
`
	tests := []struct {
		name        string
		window      envoyrls.Window
		take, amend time.Duration
		request     *rlsv3.RateLimitRequest
		code        rlsv3.RateLimitResponse_Code
	}{
		{"steps of a store that hangs", envoyrls.Sliding, -1, 0, ask("d", "a=1", "shadow=1", "quota=1"), ok},
		{"steps of a slow store", envoyrls.Sliding, 8 * time.Millisecond, 0,
			ask("d", "a=1", "shadow=1", "quota=1"), ok},
		{"items of one counter", envoyrls.Fixed, -1, 0, ask("d", "a=1", "a=1", "a=1", "a=1"), ok},
		{"a first denial", envoyrls.Fixed, 8 * time.Millisecond, 8 * time.Millisecond, hits(11, ask("d", "a=1")), over},
		{"a first denial, an amendment that hangs", envoyrls.Fixed, 0, -1, hits(11, ask("d", "a=1")), over},
		{"what is undone, an amendment that hangs", envoyrls.Sliding, 0, -1, ask("d", "a=1", "none=1"), over},
	}
	for _, test := range tests {
		t.Run(test.window.String()+"/"+test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failure := stint.FailurePolicy{Mode: stint.FailLocal}
				store := behindStack(t, &slow{inMemory(t, nil), test.take, test.amend}, failure)
				service := newService(t, store, parse(t, config),
					envoyrls.Options{Window: test.window, Failure: failure})
				time.Sleep(time.Minute) // away from the edge of a window
				began := time.Now()
				response, err := service.ShouldRateLimit(t.Context(), test.request)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > patience {
					t.Errorf("it took %v, want at most %v", took, patience)
				}
				if got := response.GetOverallCode(); got != test.code {
					t.Errorf("got %v, want %v", got, test.code)
				}
			})
		})
	}
}

// TestLateUndo gives back what a denied request was charged even if the store takes longer than the
// answer.
func TestLateUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const config = `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: none, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
`
		var log strings.Builder
		service := newService(t, &slow{inMemory(t, nil), 0, 100 * time.Millisecond}, parse(t, config),
			envoyrls.Options{Logger: textLogger(&log)})
		for _, step := range []struct {
			request *rlsv3.RateLimitRequest
			want    string
		}{
			{ask("d", "a=1", "none=1"), "OVER: OK 1 of 1/HOUR; OVER 0 of 0/HOUR"},
			{ask("d", "a=1"), "OK: OK 0 of 1/HOUR"},
		} {
			response, err := service.ShouldRateLimit(t.Context(), step.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(response); got != step.want {
				t.Errorf("got %s, want %s", got, step.want)
			}
			if reset := response.GetStatuses()[0]; reset.GetLimitRemaining() == 1 &&
				reset.GetDurationUntilReset().GetSeconds() != 0 {
				t.Errorf("got a reset after %v, want none of what is unused", reset.GetDurationUntilReset())
			}
			time.Sleep(time.Second)
		}
		if want := "not given back"; strings.Count(log.String(), want) != 1 {
			t.Errorf("log: got %q, want one line with %q", log.String(), want)
		}
	})
}
