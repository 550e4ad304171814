package resilience

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/storetest"
)

func TestFallbackContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		h := openMemory(t)
		h.Store = newFallbackFor(t, h.Store, Config{now: h.Clock.Now})
		return h
	})
}

// Without the store, what is left is a limiter as good as any.
func TestFallbackContractWithoutTheStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		h := openMemory(t)
		h.NeverOver = true
		inner := newFlaky(t, h.Store)
		inner.fail(unreachable(), "take", "amend")
		h.Store = givesUp{newFallbackFor(t, inner, Config{Instances: 1, now: h.Clock.Now})}
		return h
	})
}

// givesUp takes the errors that requests for leases get for denials, which the contract permits.
type givesUp struct{ stint.Store }

func (g givesUp) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	d, err := g.Store.Take(ctx, r)
	if err != nil && (r.Terms().Fit || r.Terms().Lease > 0) {
		d = stint.Decision{RetryAfter: time.Second, Charge: contract.ChargeOf(&r)}
		d.MakeUsages(len(r.Claims[0].Limits))
		err = nil
	}
	return d, err
}

func TestFallbackModes(t *testing.T) {
	local, allow, deny, fail := &stint.FailurePolicy{}, &stint.FailurePolicy{Mode: stint.FailAllow},
		&stint.FailurePolicy{Mode: stint.FailDeny}, &stint.FailurePolicy{Mode: stint.FailError}
	leased := stint.PerMinute(10).WithLease()
	with := func(p *stint.FailurePolicy, limits ...stint.Limit) stint.Request {
		r := oneUnit("a", limits...)
		r.Failure = p
		return r
	}
	fit, lease := with(allow), with(allow, leased)
	fit.Terms().Fit, lease.Terms().Lease = true, time.Second
	mixed := with(allow, leased, stint.PerHour(5))
	tests := []struct {
		name    string
		config  stint.FailureMode
		request stint.Request
		want    string
	}{
		{"config local", stint.FailLocal, with(nil), "allowed"},
		{"config allow", stint.FailAllow, with(nil), "waved through"},
		{"config deny", stint.FailDeny, with(nil), "denied"},
		{"config error", stint.FailError, with(nil), "error"},
		{"request local", stint.FailDeny, with(local), "allowed"},
		{"request allow", stint.FailDeny, with(allow), "waved through"},
		{"request allow, limit 0", stint.FailDeny, with(allow, stint.PerHour(0)), "waved through"},
		{"request local, limit 0", stint.FailDeny, with(local, stint.PerHour(0)), "denied"},
		{"request deny", stint.FailAllow, with(deny), "denied"},
		{"request error", stint.FailAllow, with(fail), "error"},
		{"leased, local", stint.FailLocal, with(local, leased), "denied"},
		{"leased, allow", stint.FailLocal, with(allow, leased), "denied"},
		{"leased, error", stint.FailLocal, with(fail, leased), "error"},
		{"leased and not", stint.FailLocal, mixed, "denied"},
		{"fit", stint.FailLocal, fit, "error"},
		{"lease", stint.FailLocal, lease, "error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inner, w := newFlaky(t), new(witness)
			f := newFallbackFor(t, inner, Config{Failure: stint.FailurePolicy{Mode: test.config}, Observer: w})
			inner.down()
			d, err := f.Take(t.Context(), test.request)
			got := "denied"
			switch {
			case err != nil:
				if got = "error"; !errors.Is(err, errDown) {
					t.Errorf("error is %v, want the store's", err)
				}
			case d.Allowed && len(d.States()) == 0: // nothing is known of what was used
				got = "waved through"
			case d.Allowed:
				got = "allowed"
			}
			if got != test.want {
				t.Fatalf("%s, want %s", got, test.want)
			}
			if (err == nil) != (len(w.take()) == 1) {
				t.Error("the observer hears of decisions, and of nothing else")
			}
			if err != nil {
				return
			}
			if !d.Degraded || d.Key() != "a" ||
				got != "waved through" && len(d.States()) != len(test.request.Claims[0].Limits) {
				t.Errorf("degraded is %v, %d states, key %q", d.Degraded, len(d.States()), d.Key())
			}
			if got == "denied" && d.RetryAfter != time.Second && test.request.Claims[0].Limits[0].Max > 0 {
				t.Errorf("retry-after is %v, want 1s", d.RetryAfter)
			}
		})
	}
}

func TestFallbackObserved(t *testing.T) {
	inner, w := newFlaky(t), new(witness)
	f := newFallbackFor(t, inner, Config{Observer: w})
	mustDecide(t, f, oneUnit("a"))
	inner.down()
	mustDecide(t, f, oneUnit("a"))
	mustDecide(t, f, oneUnit("b", stint.PerHour(1).WithLease()))
	w.want(t, "a fell back: local, unreachable", "b fell back: deny, unreachable")
}

func TestFallbackReturnsWhatIsTheCallers(t *testing.T) {
	inner := newFlaky(t)
	f := newFallbackFor(t, inner, Config{Failure: stint.FailurePolicy{Mode: stint.FailAllow}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := f.Take(ctx, oneUnit("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %+v, %v", d, err)
	}
	invalid := &stint.InvalidError{Err: errDown}
	inner.fail(invalid)
	if _, err := f.Take(t.Context(), oneUnit("a")); err != invalid {
		t.Errorf("mistake: %v", err)
	}
	// Not the caller's, though it looks like it: something within gave up.
	inner.fail(&stint.StoreError{Op: "take", Err: context.Canceled})
	mustDecide(t, f, oneUnit("a"))
	// Out of time, and yet there is a decision.
	inner.fail(nil)
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if _, err := f.Take(late, oneUnit("a")); err != nil {
		t.Errorf("late: %v", err)
	}
}

func TestInvalidConfig(t *testing.T) {
	for _, c := range []Config{
		{Instances: -1}, {LocalBytes: -1}, {Failure: stint.FailurePolicy{Mode: 9}},
	} {
		var invalid *stint.InvalidError
		if _, err := New(newFlaky(t), c); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestFallbackLocalStateOutlivesFlaps(t *testing.T) {
	inner := newFlaky(t)
	f := newFallbackFor(t, inner, Config{Instances: 2})
	total := 0
	for i := range 5 {
		inner.down()
		total += admitted(t, f, 10, oneUnit("a", stint.PerHour(10)))
		inner.up()
		mustDecide(t, f, oneUnit(fmt.Sprint("other", i)))
	}
	if total != 5 {
		t.Errorf("%d admitted in five short outages, want 5", total)
	}
}

func TestFallbackClosed(t *testing.T) {
	inner := newFlaky(t)
	f := newFallbackFor(t, inner, Config{})
	f.Close()
	f.Close()
	mustDecide(t, f, oneUnit("a"))
	inner.down()
	if _, err := f.Take(t.Context(), oneUnit("a")); !errors.Is(err, errDown) {
		t.Errorf("%v, want the store's error", err)
	}
}

func TestFallbackDoesNotAllocate(t *testing.T) {
	ctx := context.Background()
	r := oneUnit("a", stint.PerMinute(1000), stint.PerHour(1000), stint.PerDay(1000))
	f := newFallbackFor(t, trivial{}, Config{Observer: ignore})
	if n := testing.AllocsPerRun(1000, func() { _, _ = f.Take(ctx, r) }); n != 0 {
		t.Errorf("the store works: %v allocations a decision, want 0", n)
	}
	inner := newFlaky(t)
	inner.down()
	f = newFallbackFor(t, inner, Config{Instances: 3})
	if n := testing.AllocsPerRun(1000, func() { _, _ = f.Take(ctx, r) }); n != 0 {
		t.Errorf("local: %v allocations a decision, want 0", n)
	}
}

func BenchmarkFallback(b *testing.B) {
	ctx := context.Background()
	subjects := make([]string, 1<<14)
	for i := range subjects {
		subjects[i] = fmt.Sprintf("user:%d", i)
	}
	limits := []stint.Limit{stint.PerMinute(1000), stint.PerHour(1000), stint.PerDay(1000)}
	run := func(name string, s func(b *testing.B) stint.Store, subjects []string) {
		b.Run(name, func(b *testing.B) {
			store := s(b)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				_, _ = store.Take(ctx, stint.Request{
					Claims: []stint.Claim{{Subject: subjects[i%len(subjects)], Limits: limits, Cost: 1}}})
			}
		})
	}
	none := func(*testing.B) stint.Store { return trivial{} }
	healthy := func(b *testing.B) stint.Store {
		return newFallbackFor(b, trivial{}, Config{})
	}
	local := func(b *testing.B) stint.Store {
		inner := newFlaky(b)
		inner.down()
		return newFallbackFor(b, inner, Config{Instances: 3})
	}
	run("none", none, subjects)
	run("healthy", healthy, subjects)
	run("healthy, one subject", healthy, subjects[:1])
	run("local", local, subjects)
	run("local, one subject", local, subjects[:1])
}
