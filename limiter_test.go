package stint_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
)

// newLimiter returns a limiter over a new memory store.
func newLimiter(t *testing.T, options ...stint.Option) *stint.Limiter {
	t.Helper()
	return limiterOver(t, guardtest.Memory(t), options...)
}

// limiterOver returns a limiter over any store.
func limiterOver(t *testing.T, store stint.Store, options ...stint.Option) *stint.Limiter {
	t.Helper()
	lim := testkit.Must(stint.New(store, options...))(t)
	return lim
}

// wantMistake checks that err is an InvalidError that contains every string in tells or, if tells
// is empty, that err is nil.
func wantMistake(t *testing.T, what any, err error, tells ...string) {
	t.Helper()
	if _, invalid := errors.AsType[*stint.InvalidError](err); invalid != (len(tells) > 0) || !invalid && err != nil {
		t.Errorf("%+v: error %v", what, err)
		return
	}
	for _, text := range tells {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %q is not told by: %v", what, text, err)
		}
	}
}

// TestUnavailableAsError: if a request is denied because the store is unavailable, the error
// mentions neither an exceeded limit nor a deadline.
func TestUnavailableAsError(t *testing.T) {
	lim := limiterOver(t, guardtest.Away{}, stint.PerMinute(1))
	d := testkit.Must(lim.Allow(t.Context(), "igdb:api"))(t)
	soon, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, wait := lim.Wait(soon, "igdb:api")
	for what, err := range map[string]error{"Allow": d.Err(), "Wait": wait} {
		denied, ok := errors.AsType[*stint.DeniedError](err)
		if !ok || !denied.Unavailable || denied.Banned || denied.RetryAfter != time.Second {
			t.Errorf("%s: got %#v, want that the limiter is unavailable", what, err)
		}
		if got, want := err.Error(), "denied for key 'igdb:api': the rate limiter is unavailable"; got != want {
			t.Errorf("%s: message %q, want %q", what, got, want)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v; more time would not have helped", what, err)
		}
	}
}

func TestNewMistakes(t *testing.T) {
	store := guardtest.Memory(t)
	for _, test := range []struct {
		store   stint.Store
		options []stint.Option
		tells   []string
	}{
		{nil, nil, []string{"the store is nil; want a store, such as one from stores.Open"}},
		{(*memorystore.Store)(nil), nil, []string{"the store is nil; want a store, such as one from stores.Open"}},
		{store, []stint.Option{(*stint.Limit)(nil)}, []string{"an option is nil; want a limit"}},
		{store, []stint.Option{nil}, []string{"an option is nil; want a limit"}},
		{store, []stint.Option{struct{ stint.Option }{}}, []string{"an option is nil; want a limit"}},
		{store, []stint.Option{stint.PerMinute(-1), stint.Per(1, 0)},
			[]string{"Limits[0]", "a maximum of -1", "Limits[1]", "a window of 0s"}},
		{store, []stint.Option{stint.Limit{Max: -1, Window: -1, Burst: -1, Name: "a b"}},
			[]string{"a maximum of -1", "a window of -1ns", "a burst of -1", `the name "a b"`}},
		{store, []stint.Option{stint.PerMinute(1), stint.PerMinute(2)}, []string{"same name, algorithm and window"}},
		{store, []stint.Option{stint.PerMinute(1), stint.WithBans(stint.BanPolicy{After: 126})},
			[]string{"After is 126", "Within", "Durations"}},
	} {
		_, err := stint.New(test.store, test.options...)
		wantMistake(t, test.options, err, test.tells...)
	}
}

// Age and Refilled are valid only with ModeForce, and only if MaxWait is 0.
func TestLateMistakes(t *testing.T) {
	lim := newLimiter(t, stint.PerMinute(1))
	for _, test := range []struct {
		mode  stint.Mode
		wait  time.Duration
		terms driver.Terms
		valid bool
	}{
		{driver.ModeForce, 0, driver.Terms{Age: time.Hour, Refilled: math.MaxInt64}, true},
		{driver.ModeForce, 0, driver.Terms{Age: 1}, true},
		{driver.ModeForce, 0, driver.Terms{Age: -1}, false},
		{driver.ModeForce, 0, driver.Terms{Refilled: -1}, false},
		{driver.ModeForce, time.Second, driver.Terms{Age: time.Second}, false},
		{driver.ModeForce, time.Second, driver.Terms{Refilled: 1}, false},
		{stint.ModeTake, 0, driver.Terms{Age: time.Second}, false},
		{stint.ModeTake, 0, driver.Terms{Refilled: 1}, false},
		{stint.ModePeek, 0, driver.Terms{Age: time.Second}, false},
		{stint.ModeReserve, 0, driver.Terms{Refilled: 1}, false},
	} {
		_, err := lim.Take(t.Context(), request(func(r *stint.Request) {
			r.Mode, r.MaxWait, *r.Terms() = test.mode, test.wait, test.terms
		}))
		if errors.As(err, new(*stint.InvalidError)) == test.valid {
			t.Errorf("%+v: error %v", test, err)
		}
	}
}

func request(change func(*stint.Request)) stint.Request {
	r := stint.Request{Claims: []stint.Claim{{Subject: "a", Cost: 1}}}
	change(&r)
	return r
}

// UsagesOf returns the usages of a claim in the order of its limits.
func TestUsagesOf(t *testing.T) {
	d, err := newLimiter(t).Take(t.Context(), stint.Request{Claims: []stint.Claim{
		{Subject: "a", Limits: []stint.Limit{stint.PerMinute(9), stint.PerHour(9)}, Cost: 2},
		{Subject: "b", Limits: []stint.Limit{stint.PerDay(9)}, Cost: 3},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for claim, want := range [][]int64{{2, 2}, {3}, nil} {
		var got []int64
		for _, u := range d.UsagesOf(claim) {
			got = append(got, u.Used)
		}
		if !slices.Equal(got, want) {
			t.Errorf("claim %d: got %v, want %v", claim, got, want)
		}
	}
	denied := stint.Decision{Charge: d.Charge} // the usages are unknown
	if got := denied.UsagesOf(1); len(got) != 0 {
		t.Errorf("got %v, want none", got)
	}
}

// A repeat waits for the booking of the original request. It neither moves the booking nor gives it
// back.
func TestWaitOfARepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, stint.PerMinute(1))
		r := stint.Request{Claims: []stint.Claim{{Subject: "a", Cost: 1}}, ID: "x", IDLife: time.Hour}
		if _, err := lim.Wait(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var work sync.WaitGroup
		work.Go(func() {
			if d, err := lim.WaitFor(t.Context(), r); err != nil || d.Repeat || time.Since(start) != time.Minute {
				t.Errorf("first: %+v, %v, after %v", d, err, time.Since(start))
			}
		})
		time.Sleep(time.Second)
		for range 3 { // fewer requests than the allowed repeats, even if each asks several times
			ctx, cancel := context.WithTimeout(t.Context(), 59500*time.Millisecond)
			gone, leave := context.WithCancel(ctx)
			work.Go(func() { _, _ = lim.WaitFor(gone, r) })
			work.Go(func() {
				defer cancel()
				if d, err := lim.WaitFor(ctx, r); err != nil || !d.Repeat || time.Since(start) != time.Minute {
					t.Errorf("repeat: %+v, %v, after %v", d, err, time.Since(start))
				}
			})
			time.Sleep(time.Millisecond)
			leave()
		}
		work.Wait()
		if d, err := lim.Peek(t.Context(), "a"); err != nil || d.Usages()[0].Used != 1 {
			t.Errorf("used %d, %v, want 1", d.Usages()[0].Used, err)
		}
	})
}

func TestCallMistakes(t *testing.T) {
	lim := newLimiter(t, stint.PerMinute(1), stint.WithBans(stint.BanPolicy{}))
	banless, limitless := newLimiter(t, stint.PerMinute(1)), newLimiter(t)
	ctx := t.Context()
	take := func(change func(*stint.Request)) error { _, err := lim.Take(ctx, request(change)); return err }
	wait := func(change func(*stint.Request)) error { _, err := lim.WaitFor(ctx, request(change)); return err }
	allow := func(subject string, n int64) error { _, err := lim.AllowN(ctx, subject, n); return err }
	settle := func() error { _, err := lim.Settle(ctx, stint.Decision{}, -1); return err }
	_, none := limitless.Allow(ctx, "a")
	_, noWait := limitless.Wait(ctx, "a")
	for name, err := range map[string]error{
		"no limits": none, "no limits to wait for": noWait,
		"no subject": allow("", 1), "a subject too long": allow(strings.Repeat("x", stint.MaxSubject+1), 1),
		"a negative cost": allow("a", -1), "a cost too large": allow("a", stint.MaxUnits+1),
		"wait, a negative cost": wait(func(r *stint.Request) { r.Claims[0].Cost = -1 }),
		"settling to less":      settle(),
		"a ban of no length":    lim.Ban(ctx, "a", 0), "a ban without a subject": lim.Ban(ctx, "", time.Minute),
		"a ban without a policy": banless.Ban(ctx, "a", time.Minute), "a reset without a subject": lim.Reset(ctx, ""),
		"an unknown mode":       take(func(r *stint.Request) { r.Mode = 9 }),
		"a negative wait":       take(func(r *stint.Request) { r.MaxWait = -1 }),
		"an id too long":        take(func(r *stint.Request) { r.ID = strings.Repeat("x", 1<<17) }),
		"a bad limit":           take(func(r *stint.Request) { r.Claims[0].Limits = []stint.Limit{{Max: -1}} }),
		"one state, two claims": take(func(r *stint.Request) { r.Claims = append(r.Claims, r.Claims[0]) }),
		"too many claims":       take(func(r *stint.Request) { r.Claims = make([]stint.Claim, 99) }),
		"booking a concurrency": wait(func(r *stint.Request) { r.Claims[0].Limits = []stint.Limit{stint.Concurrency(1, time.Second)} }),
	} {
		wantMistake(t, name, err, "stint: invalid: ")
	}
	const want = "stint: invalid: there are no limits; pass some to stint.New, such as stint.PerMinute(100)"
	if none == nil || none.Error() != want || noWait == nil || noWait.Error() != want {
		t.Errorf("got %v and %v, want %s", none, noWait, want)
	}
}

func TestGiveBack(t *testing.T) {
	lim := newLimiter(t, stint.PerHour(10), stint.TokenBucket(20, 1, stint.MaxWindow))
	take := func(mode stint.Mode, scope string, cost int64) (used [2]int64) {
		t.Helper()
		d, err := lim.Take(t.Context(),
			stint.Request{Claims: []stint.Claim{{Subject: "a", Scope: scope, Cost: cost}}, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range d.States() {
			used[i] = s.Used
		}
		return used
	}
	for _, scope := range []string{"", "x", "y"} {
		take(stint.ModeTake, scope, 7)
	}
	if err := lim.GiveBack(t.Context(), "a", 2); err != nil {
		t.Fatal(err)
	}
	if err := lim.GiveBack(t.Context(), "a", 5, "x", "y"); err != nil {
		t.Fatal(err)
	}
	for scope, want := range map[string][2]int64{"": {5, 5}, "x": {2, 2}, "y": {2, 2}} {
		if got := take(stint.ModePeek, scope, 0); got != want {
			t.Errorf("scope %q: used %v, want %v", scope, got, want)
		}
	}
}

func TestCommandMistakes(t *testing.T) {
	limits := []stint.Limit{stint.PerHour(1)}
	for _, test := range []struct {
		command stint.Command
		tells   []string // empty if the command is valid
	}{
		{stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: limits}, nil},
		{stint.Command{Kind: stint.CommandBan, Subject: "a", For: time.Hour}, nil},
		{stint.Command{}, []string{"the Kind of the command is 0; want CommandReset, ", "Subject has 0 bytes"}},
		{stint.Command{Kind: stint.CommandReset, Subject: "a"}, []string{"no limits to reset"}},
		{stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: append(limits, limits...)},
			[]string{"Limits[1]", "same name"}},
		{stint.Command{Kind: stint.CommandBan, Subject: "a"}, []string{"the ban is 0s; want whole microseconds"}},
		{stint.Command{Kind: stint.CommandBan, Subject: "a", For: -time.Hour}, []string{"the ban is -1h0m0s"}},
		{stint.Command{Kind: stint.CommandBan, Subject: "a", For: stint.MaxWindow + time.Second},
			[]string{"from 1ms to 366 days"}},
		{stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: limits, Units: 1}, nil},
		{stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: limits, Units: stint.MaxUnits}, nil},
		{stint.Command{Kind: stint.CommandUnban}, []string{"Subject has 0 bytes"}},
		{stint.Command{Kind: 9, Subject: "a"}, []string{"the Kind of the command is 9"}},
		{stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: limits},
			[]string{"Units is 0; want 1 to 9007199254740992"}},
		{stint.Command{Kind: stint.CommandGiveBack, Units: stint.MaxUnits + 1},
			[]string{"Units is 9007199254740993", "Subject has 0 bytes", "0 limits"}},
		{stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: append(limits, limits...), Units: 1},
			[]string{"Limits[1]", "same name"}},
	} {
		wantMistake(t, test.command, test.command.Validate(), test.tells...)
	}
}
