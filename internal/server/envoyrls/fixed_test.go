package envoyrls_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/server/envoyrls"
)

// textLogger writes a line for each message.
func textLogger(to io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }

const tenASecond = "domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: second, requests_per_unit: 10}}\n"

// TestEndOfWindow does not have a denial at the end of a window use up the next one.
func TestEndOfWindow(t *testing.T) {
	at := newClock(noon.Add(999500 * time.Microsecond))
	step := time.Millisecond // each look at the store's clock takes a while
	store := inMemory(t, func() time.Time {
		defer at.advance(step)
		return at.now()
	})
	service := newService(t, store, parse(t, tenASecond), envoyrls.Options{Window: envoyrls.Fixed, Now: at.now})
	response, err := service.ShouldRateLimit(t.Context(), hits(11, ask("d", "a=1")))
	if err != nil || show(response) != "OVER: OVER 0 of 10/SECOND" {
		t.Fatalf("got %v, %v; want a denial", response, err)
	}
	step = 0
	if response, err = service.ShouldRateLimit(t.Context(), ask("d", "a=1")); err != nil ||
		show(response) != "OK: OK 9 of 10/SECOND" {
		t.Errorf("in the next window: got %v, %v; want it unused", response, err)
	}
	at.advance(500 * time.Millisecond)
	for _, n := range []uint32{11, 1} { // in the middle of one it does use it up
		if response, err = service.ShouldRateLimit(t.Context(), hits(n, ask("d", "a=2"))); err != nil ||
			response.GetOverallCode() != over {
			t.Errorf("%d in the middle: got %v, %v; want a denial", n, response, err)
		}
	}
}

// TestNeverFits has a request for more than a limit use up the window that it is in, though it is
// known from the one before that there is no room for it.
func TestNeverFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := stint.FailurePolicy{Budget: time.Millisecond}
		store := behindStack(t, &slow{inMemory(t, nil), 0, 0}, failure)
		service := newService(t, store, parse(t, tenASecond),
			envoyrls.Options{Window: envoyrls.Fixed, Failure: failure, Headers: envoyrls.HeadersAll})
		for window := range 3 {
			time.Sleep(700 * time.Millisecond) // a denial is remembered for a second
			for _, r := range []*rlsv3.RateLimitRequest{
				hits(11, ask("d", "a=1")), hits(11, ask("d", "a=1")), own(0, 0, ask("d", "a=1")), ask("d", "a=1"),
			} {
				response, err := service.ShouldRateLimit(t.Context(), r)
				if err != nil || show(response) != "OVER: OVER 0 of 10/SECOND" {
					t.Errorf("window %d: got %v, %v; want a denial", window, response, err)
				}
				if retry := strings.Contains(headers(response), "Retry-After"); retry == (r.GetHitsAddend() == 11) {
					t.Errorf("window %d: %d hits: got %s", window, r.GetHitsAddend(), headers(response))
				}
			}
		}
	})
}

// TestSkew: a denial counts in the store's window, whatever this host's clock says.
func TestSkew(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 700 * time.Millisecond, time.Hour} {
		at := newClock(noon.Add(100 * time.Millisecond))
		var log strings.Builder
		service := newService(t, inMemory(t, at.now), parse(t, tenASecond), envoyrls.Options{
			Window: envoyrls.Fixed, Logger: textLogger(&log), Now: func() time.Time { return at.now().Add(skew) },
		})
		for i, step := range []struct {
			request *rlsv3.RateLimitRequest
			want    string
		}{
			{hits(5, ask("d", "a=1")), "OK: OK 5 of 10/SECOND"},
			{hits(6, ask("d", "a=1")), "OVER: OVER 0 of 10/SECOND"},
			{own(0, 0, ask("d", "a=1")), "OVER: OVER 0 of 10/SECOND"},
			{own(0, -2, ask("d", "a=1")), "OK: OK 1 of 10/SECOND"}, // 9 of the 11
		} {
			response, err := service.ShouldRateLimit(t.Context(), step.request)
			if err != nil || show(response) != step.want {
				t.Errorf("skew %v, step %d: got %v, %v; want %s", skew, i, response, err, step.want)
			}
		}
		if log.Len() > 0 {
			t.Errorf("skew %v: log: got %q, want nothing", skew, log.String())
		}
	}
}

// TestUnavailable has nothing left until it is worth asking again.
func TestUnavailable(t *testing.T) {
	for _, window := range []envoyrls.Window{envoyrls.Sliding, envoyrls.Fixed} {
		failure := stint.FailurePolicy{Mode: stint.FailDeny, Budget: time.Millisecond}
		store := behindStack(t, &slow{inMemory(t, nil), -1, -1}, failure)
		service := newService(t, store, parse(t, tenASecond),
			envoyrls.Options{Window: window, Failure: failure, Headers: envoyrls.HeadersAll})
		response, err := service.ShouldRateLimit(t.Context(), ask("d", "a=1"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := headers(response), allHeaders(10, 0, 1, ", Retry-After: 1"); got != want {
			t.Errorf("%v: got %s, want %s", window, got, want)
		}
	}
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
		service := newService(t, inMemory(t, at.now), parse(t, monthly), envoyrls.Options{Window: window, Now: at.now})
		for _, code := range []rlsv3.RateLimitResponse_Code{ok, over, over} {
			got, err := service.ShouldRateLimit(t.Context(), ask("d", "a=1"))
			if err != nil || got.OverallCode != code || got.Statuses[0].DurationUntilReset.AsDuration() != want {
				t.Errorf("%v: got %v, %v; want %v for %v", window, got, err, code, want)
			}
		}
		at.advance(want)
		if got, err := service.ShouldRateLimit(t.Context(), ask("d", "a=1")); err != nil || got.OverallCode != ok {
			t.Errorf("%v: got %v, %v in the next month; want OK", window, got, err)
		}
	}
}
