package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/server/control"
)

// TestTakeUnder has the limits found that a question means.
func TestTakeUnder(t *testing.T) {
	d := inMemory(t, control.Config{})
	type under struct{ tier, policy, scope, first string }
	for _, test := range []struct {
		ask  control.TakeRequest
		want under
		n    int
	}{
		{control.TakeRequest{Target: of("ip:203.0.113.9")}, under{"anonymous", "", "global", "10/1m burst 2x"}, 3},
		{control.TakeRequest{Target: of("internal:indexer")}, under{"internal", "", "", "1000/1m"}, 1},
		{control.TakeRequest{Target: of("session:s")}, under{"free", "", "other", "30/1m burst 2x"}, 3},
		{control.TakeRequest{Target: of("user:42"), Tier: "pro"}, under{"pro", "", "other", "100/1m burst 3x"}, 3},
		{control.TakeRequest{Target: of("user:42"), Tier: "pro", Scope: "simulate"}, under{"pro", "", "simulate", "100/1m burst 3x"}, 3},
		{control.TakeRequest{Target: of("user:42"), Policy: "simulate"}, under{"enterprise", "simulate", "simulate", "endpoint: 50/1m"}, 1},
		{control.TakeRequest{Target: of("user:42"), Policy: "simulate", Tier: "free"}, under{"free", "simulate", "simulate", "endpoint: 50/1m"}, 1},
		{control.TakeRequest{Target: of("ip:203.0.113.9"), Policy: "work", Cost: 30}, under{"anonymous", "work", "work", "cost: 100/1h"}, 1},
	} {
		for _, peek := range []bool{true, false} {
			test.ask.Peek = peek
			a := take(t, d, test.ask)
			l := a.Limits[0]
			if got := (under{l.Tier, l.Policy, l.Scope, l.Limit}); got != test.want ||
				len(a.Limits) != test.n || !a.Allowed {
				t.Errorf("%+v: got %+v and %d limits, allowed %t; want %+v and %d", test.ask, got, len(a.Limits), a.Allowed, test.want, test.n)
			}
			charged := max(test.ask.Cost, 1)
			if want := map[bool]int64{true: 0, false: charged}[peek]; test.ask.Policy != "simulate" && l.Used != want {
				t.Errorf("%+v: %d used, want %d", test.ask, l.Used, want)
			}
		}
	}
}

// away is an unavailable store, under [stint.FailDeny].
type away struct{ driver.Inspector }

func (away) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	d := stint.Decision{Degraded: true, Unavailable: true, RetryAfter: time.Second,
		Charge: driver.NewCharge(r.Claims, driver.ChargeData{})}
	d.MakeUsages(len(r.Claims[0].Limits))[0].RetryAfter = time.Second
	return d, nil
}

// TestTakeUnavailable: without the store nothing is said about limits.
func TestTakeUnavailable(t *testing.T) {
	got := take(t, over(t, away{}, control.Config{}), control.TakeRequest{Target: of("ip:203.0.113.9")})
	if got.Allowed || !got.Degraded || !got.Unavailable || got.RetryAfter != 1 || len(got.Limits) != 0 {
		t.Errorf("got %+v, want a denial for want of the store", got)
	}
}

func TestTakeMistakes(t *testing.T) {
	d := inMemory(t, control.Config{})
	for _, test := range []struct {
		ask  control.TakeRequest
		want string
	}{
		{control.TakeRequest{Target: of("user:42")}, `the limits of "user:42" depend on its tier, which its name does not show; want one of enterprise, pro, free`},
		{control.TakeRequest{Target: of("user:42"), Policy: "work"}, `the limits of "user:42" depend on its tier, which its name does not show; want one of pro, free`},
		{control.TakeRequest{Target: of("user:42"), Tier: "fre"}, `the tier "fre" limits no subjects like this one; want one of enterprise, pro, free (did you mean "free"?)`},
		{control.TakeRequest{Target: of("user:42"), Tier: "anonymous"}, `the tier "anonymous" limits no subjects like this one; want one of enterprise, pro, free`},
		{control.TakeRequest{Target: of("user:42"), Policy: "login"}, `the policy "login" limits no subjects like this one; want one of simulate, work`},
		{control.TakeRequest{Target: of("user:42"), Tier: "free", Scope: "framse"}, `nothing is counted in the scope "framse"; want one of "structure", "simulate", "frames", "export", "login", "other" (did you mean "frames"?)`},
		{control.TakeRequest{Target: of("user:42"), Tier: "free", Cost: 10}, `the cost is 10, but no limit here counts costs; want 1, or a policy with a budget`},
		{control.TakeRequest{Target: of("ip:203.0.113.9"), Policy: "work", Cost: -1},
			`Cost is -1; want 0 to 9007199254740992`},
	} {
		_, err := d.Take(t.Context(), test.ask)
		wantInvalid(t, err, test.want)
	}
}

func TestTakeDenied(t *testing.T) {
	d := inMemory(t, control.Config{})
	ask := control.TakeRequest{Target: of("ip:203.0.113.9")}
	for range 20 {
		if !take(t, d, ask).Allowed {
			t.Fatal("denied too early")
		}
	}
	a := take(t, d, ask)
	if a.Allowed || a.Banned || a.RetryAfter <= 0 || a.Limits[0].Remaining != 0 ||
		a.Limits[0].RetryAfter != a.RetryAfter || a.Limits[1].RetryAfter != 0 {
		t.Errorf("got %+v, want that the first limit denies", a)
	}
	ask.Policy, ask.Cost = "work", 101
	if a := take(t, d, ask); a.Allowed || a.RetryAfter != -1 {
		t.Errorf("got %+v, want that it is never allowed", a)
	}
	if _, err := d.Ban(t.Context(), of("ip:203.0.113.10"), stint.MaxWindow); err != nil {
		t.Fatal(err)
	}
	if a := take(t, d, control.TakeRequest{Target: of("ip:203.0.113.10")}); a.Allowed || !a.Banned {
		t.Errorf("got %+v, want that it is banned", a)
	}
}

var errDeaf = errors.New("deaf")

// deaf is a store that executes no commands, and shows nothing.
type deaf struct{ stint.Store }

func (deaf) Command(context.Context, stint.Command) error { return errDeaf }
