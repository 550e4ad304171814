package envoyrls_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/redisstore"
	"github.com/stint-limiter/stint/resilience"
)

const (
	tenASecond  = "domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: second, requests_per_unit: 10}}\n"
	hundredADay = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 100}}]"
)

var windows = []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed}

func textLogger(to io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }

// slow is a store whose answers take a while; a negative while never ends.
type slow struct {
	stint.Store
	take, amend, command time.Duration
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

func (s *slow) Command(ctx context.Context, c stint.Command) error {
	if err := s.wait(ctx, "command", s.command); err != nil {
		return err
	}
	return s.Store.Command(ctx, c)
}

// gone is a store that fails.
var gone = guardtest.Failing{Err: &stint.StoreError{Op: "test", Kind: stint.KindUnreachable, Err: errors.New("gone")}}

// TestBudget: Envoy is answered within its default timeout, however many calls to the store a
// request takes and however slow the store is.
func TestBudget(t *testing.T) {
	const config = `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: none, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
`
	const ms = time.Millisecond
	for _, test := range []struct {
		name        string
		window      envoyrls.Window
		take, amend time.Duration
		request     *rlsv3.RateLimitRequest
		code        rlsv3.RateLimitResponse_Code
	}{
		{"steps of a store that hangs", envoyrls.Sliding, -1, 0, ask("d", "a=1", "shadow=1", "quota=1"), ok},
		{"steps of a slow store", envoyrls.Sliding, 8 * ms, 0, ask("d", "a=1", "shadow=1", "quota=1"), ok},
		{"items of one counter", envoyrls.Fixed, -1, 0, ask("d", "a=1", "a=1", "a=1", "a=1"), ok},
		{"a first denial", envoyrls.Fixed, 8 * ms, 8 * ms, hits(11, ask("d", "a=1")), over},
		{"a first denial, an amendment that hangs", envoyrls.Fixed, 0, -1, hits(11, ask("d", "a=1")), over},
		{"an undo that hangs", envoyrls.Sliding, 0, -1, ask("d", "a=1", "none=1"), over},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failure := stint.FailurePolicy{Mode: stint.FailLocal}
				store := guardtest.Stack(t, &slow{Store: guardtest.Memory(t), take: test.take, amend: test.amend}, resilience.Config{Failure: failure})
				service := newService(t, store, parse(t, config), envoyrls.Options{Window: test.window, Failure: failure})
				time.Sleep(time.Minute) // away from the edge of a window
				began := time.Now()
				if got := decide(t, service, test.request).GetOverallCode(); got != test.code {
					t.Errorf("got %v, want %v", got, test.code)
				}
				if took := time.Since(began); took > 20*ms {
					t.Errorf("it took %v, want at most 20 ms", took)
				}
			})
		})
	}
}

// TestLateUndo: charges of a denied request are given back even if the store takes longer than the
// answer, and so are negative hits.
func TestLateUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const config = `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: none, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: k, rate_limit: {unit: day, requests_per_unit: 100}}
`
		var log strings.Builder
		store := &slow{Store: guardtest.Memory(t), amend: 100 * time.Millisecond, command: 100 * time.Millisecond}
		service := newService(t, store, parse(t, config), envoyrls.Options{Logger: textLogger(&log)})
		both := func(n int64) *rlsv3.RateLimitRequest { return own(1, n, own(0, n, ask("d", "k=1", "k=2"))) }
		began := time.Now()
		response := decide(t, service, ask("d", "a=1", "none=1"))
		if got := show(response); got != "OVER: OK 1 of 1/HOUR; OVER 0 of 0/HOUR" ||
			response.GetStatuses()[0].GetDurationUntilReset().GetSeconds() != 0 {
			t.Errorf("got %s", response)
		}
		run(t, service, envoyrls.Sliding, []step{
			{1, both(60), "OK: OK 40 of 100/DAY; OK 40 of 100/DAY", ""},
			{1, both(-50), "OK: OK 40 of 100/DAY; OK 40 of 100/DAY", ""},
		})
		if took := time.Since(began); took > 2*contract.DefaultBudget {
			t.Errorf("it took %v", took)
		}
		if err := service.Close(); err != nil {
			t.Fatal(err)
		}
		run(t, service, envoyrls.Sliding, []step{
			{1, ask("d", "a=1"), "OK: OK 0 of 1/HOUR", ""},
			{1, both(0), "OK: OK 90 of 100/DAY; OK 90 of 100/DAY", ""},
		})
		if strings.Count(log.String(), "not given back") != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("log: got %q, want one line", log.String())
		}
	})
}

// TestOutage: the answers without a store, by failure mode.
func TestOutage(t *testing.T) {
	const allowed, denied = "OK: OK 0 of 1/HOUR as buying", noBuy
	for _, window := range windows {
		for mode, want := range map[stint.FailureMode][2]string{
			stint.FailLocal: {allowed, denied},
			stint.FailAllow: {"OK: OK 1 of 1/HOUR as buying", "OK: OK 1 of 1/HOUR as buying"},
			stint.FailDeny:  {denied, denied},
		} {
			failure := stint.FailurePolicy{Mode: mode, Budget: time.Second}
			service := newService(t, guardtest.Stack(t, gone, resilience.Config{Failure: failure}), parse(t, shop),
				envoyrls.Options{Window: window, Failure: failure, Headers: envoyrls.HeadersAll})
			run(t, service, window, []step{{1, ask("shop", "path=/buy"), want[0], ""}, {1, ask("shop", "path=/buy"), want[1], ""}})
			got := headers(decide(t, service, ask("shop", "path=/a")))
			if want := all(3, 0, 1, ", Retry-After: 1"); mode == stint.FailDeny && got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if mode == stint.FailLocal { // what was charged in this process is given back
				run(t, service, window, []step{{1, own(0, 2, ask("shop", "path=/b")), "OK: OK 1 of 3/HOUR", ""}})
				decide(t, service, own(0, -1, ask("shop", "path=/b")))
				run(t, service, window, []step{{1, own(0, 0, ask("shop", "path=/b")), "OK: OK 2 of 3/HOUR", ""}})
			}
		}
		seen := &record{}
		service := newService(t, gone, parse(t, shop),
			envoyrls.Options{Window: window, Failure: stint.FailurePolicy{Mode: stint.FailError}, Observer: seen})
		for _, r := range []*rlsv3.RateLimitRequest{ask("shop", "path=/"), ask("shop", "path=/", "client=1,path=/"), many(20, "")} {
			if _, err := service.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.Unavailable {
				t.Errorf("%v: got %v; want %v", window, err, codes.Unavailable)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := service.ShouldRateLimit(ended, ask("shop", "path=/")); status.Code(err) != codes.Canceled {
			t.Errorf("%v: got %v; want %v", window, err, codes.Canceled)
		}
		if seen.failed != 4 {
			t.Errorf("%v: the observer received %d failures, want 4", window, seen.failed)
		}
	}
}

// TestEndOfWindow: a denial at the end of a fixed window does not use up the next one.
func TestEndOfWindow(t *testing.T) {
	at := newClock(noon.Add(999500 * time.Microsecond))
	pace := time.Millisecond // of the store's clock, for each reading
	store := guardtest.MemoryWith(t, memorystore.Config{Now: func() time.Time {
		defer at.advance(pace)
		return at.now()
	}})
	service := newService(t, store, parse(t, tenASecond), envoyrls.Options{Window: envoyrls.Fixed, Now: at.now})
	run(t, service, envoyrls.Fixed, []step{{1, hits(11, ask("d", "a=1")), "OVER: OVER 0 of 10/SECOND", ""}})
	pace = 0
	run(t, service, envoyrls.Fixed, []step{{1, ask("d", "a=1"), "OK: OK 9 of 10/SECOND", ""}})
	at.advance(500 * time.Millisecond)
	run(t, service, envoyrls.Fixed, []step{
		{1, hits(11, ask("d", "a=2")), "OVER: OVER 0 of 10/SECOND", ""}, {1, ask("d", "a=2"), "OVER: OVER 0 of 10/SECOND", ""},
	})
}

// TestCalendarMonth: a month is 30 days from 1970 on, or that of the calendar.
func TestCalendarMonth(t *testing.T) {
	const monthly = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: month, requests_per_unit: 1}}]"
	february := time.Date(2027, 2, 27, 23, 59, 50, 0, time.UTC)
	for window, want := range map[envoyrls.Window]time.Duration{
		envoyrls.Calendar: 24*time.Hour + 10*time.Second,
		envoyrls.Fixed:    (30*24*time.Hour - time.Duration(february.Unix()%(30*86400))*time.Second),
	} {
		at := newClock(february)
		service := newServiceAt(t, at, monthly, envoyrls.Options{Window: window})
		for _, code := range []rlsv3.RateLimitResponse_Code{ok, over, over} {
			got := decide(t, service, ask("d", "a=1"))
			if got.OverallCode != code || got.Statuses[0].DurationUntilReset.AsDuration() != want {
				t.Errorf("%v: got %v; want %v for %v", window, got, code, want)
			}
		}
		at.advance(want)
		if got := decide(t, service, ask("d", "a=1")); got.OverallCode != ok {
			t.Errorf("%v: got %v in the next month; want OK", window, got)
		}
	}
}

// TestGiveBackElsewhere: hits are given back through another process than the one that charged them.
func TestGiveBackElsewhere(t *testing.T) {
	server := redistest.Start(t)
	failure := stint.FailurePolicy{Budget: 5 * time.Second}
	for _, window := range windows {
		open := func() *envoyrls.Service {
			redis := guardtest.Redis(t, redisstore.Config{URL: server.URL(), Prefix: window.String()})
			return newService(t, guardtest.Stack(t, redis, resilience.Config{Failure: failure}), parse(t, hundredADay),
				envoyrls.Options{Window: window, Failure: failure})
		}
		a, b := open(), open()
		for i, step := range []struct {
			service *envoyrls.Service
			hits    int64
			left    string
		}{
			{a, 60, "40"}, {b, -50, "90"}, {b, 20, "70"}, {a, -25, "95"}, {b, -1000, "100"}, {a, -1, "100"}, {a, 100, "0"},
			{b, -3, "3"}, {a, 3, "0"},
		} {
			if got := show(decide(t, step.service, own(0, step.hits, ask("d", "k=1")))); got != "OK: OK "+step.left+" of 100/DAY" {
				t.Errorf("%v, step %d: got %s, want %s left", window, i+1, got, step.left)
			}
		}
	}
}
