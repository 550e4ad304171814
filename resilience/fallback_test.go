package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/resilience"
	"github.com/stint-limiter/stint/storetest"
	"pgregory.net/rapid"
)

func newFallback(t testing.TB, inner stint.Store, c resilience.FallbackConfig) *resilience.Fallback {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Remember == 0 {
		c.Remember = 1024
	}
	f, err := resilience.NewFallback(inner, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// mustDecide takes and fails on an error.
func mustDecide(t *testing.T, s stint.Store, r stint.Request) stint.Decision {
	t.Helper()
	d, err := s.Take(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// admitted is how many of n requests are allowed.
func admitted(t *testing.T, s stint.Store, n int, r stint.Request) (count int) {
	t.Helper()
	for range n {
		if mustDecide(t, s, r).Allowed {
			count++
		}
	}
	return count
}

// usedOf is what a store counts of a limit.
func usedOf(t *testing.T, s stint.Store, subject string, l stint.Limit) int64 {
	t.Helper()
	r := oneUnit(subject, l)
	r.Mode = stint.Peek
	d := mustDecide(t, s, r)
	return d.Usages()[0].Used
}

func TestFallbackContract(t *testing.T) {
	storetest.Run(t, storetest.Exact, func(t *testing.T) storetest.Harness {
		h := openMemory(t)
		h.Store = newFallback(t, h.Store, resilience.FallbackConfig{}.On(h.Clock.Now))
		return h
	})
}

// Without the store, what is left is a limiter as good as any.
func TestFallbackContractWithoutTheStore(t *testing.T) {
	storetest.Run(t, storetest.NeverOver, func(t *testing.T) storetest.Harness {
		h := openMemory(t)
		inner := newFlaky(t, h.Store)
		inner.fail(unreachable(), "take", "amend")
		h.Store = givesUp{newFallback(t, inner, resilience.FallbackConfig{Instances: 1}.On(h.Clock.Now))}
		return h
	})
}

// givesUp takes the errors that requests for leases get for denials, which the contract permits.
type givesUp struct{ stint.Store }

func (g givesUp) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	d, err := g.Store.Take(ctx, r)
	if err != nil && (r.Fit || r.Lease > 0) {
		d = stint.Decision{RetryAfter: time.Second, Charge: stint.ChargeOf(&r)}
		d.Grow(len(r.Limits))
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
	fit.Fit, lease.Lease = true, time.Second
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
			f := newFallback(t, inner, resilience.FallbackConfig{Policy: stint.FailurePolicy{Mode: test.config}, Observer: w})
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
			if !d.Degraded || d.Key() != "a" || got != "waved through" && len(d.States()) != len(test.request.Limits) {
				t.Errorf("degraded is %v, %d states, key %q", d.Degraded, len(d.States()), d.Key())
			}
			if got == "denied" && d.RetryAfter != time.Second && test.request.Limits[0].Max > 0 {
				t.Errorf("retry-after is %v, want 1s", d.RetryAfter)
			}
		})
	}
}

func TestFallbackObserved(t *testing.T) {
	inner, w := newFlaky(t), new(witness)
	f := newFallback(t, inner, resilience.FallbackConfig{Observer: w})
	mustDecide(t, f, oneUnit("a"))
	inner.down()
	mustDecide(t, f, oneUnit("a"))
	mustDecide(t, f, oneUnit("b", stint.PerHour(1).WithLease()))
	w.want(t, "a fell back: local, unreachable", "b fell back: deny, unreachable")
}

func TestFallbackReturnsWhatIsTheCallers(t *testing.T) {
	inner := newFlaky(t)
	f := newFallback(t, inner, resilience.FallbackConfig{Policy: stint.FailurePolicy{Mode: stint.FailAllow}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := f.Take(ctx, oneUnit("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %+v, %v", d, err)
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

func TestFallbackInvalid(t *testing.T) {
	for _, c := range []resilience.FallbackConfig{
		{Instances: -1}, {MaxSubjects: -1}, {Remember: -1}, {MaxSubjects: 1 << 40}, {Policy: stint.FailurePolicy{Mode: 9}},
	} {
		var invalid *stint.InvalidError
		if _, err := resilience.NewFallback(newFlaky(t), c); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := resilience.NewFallback(nil, resilience.FallbackConfig{}); err == nil {
		t.Error("no store: no error")
	}
}

// Three processes without the store admit no more than their parts. F9.
func TestFallbackDividesLimits(t *testing.T) {
	const instances = 3
	for _, l := range []stint.Limit{
		stint.PerHour(10), stint.PerHour(1), stint.PerHour(9), stint.PerHour(1000), stint.PerHour(10).WithBurst(3),
		stint.TokenBucket(10, 1, time.Hour), stint.TokenBucket(100, 70, time.Hour),
		{Max: 10, Window: 24 * time.Hour, Algorithm: stint.Fixed}, stint.AtOnce(10, time.Hour),
	} {
		part := resilience.Divide(l, instances)
		total := 0
		for range instances {
			inner := newFlaky(t)
			inner.down()
			f := newFallback(t, inner, resilience.FallbackConfig{Instances: instances})
			total += admitted(t, f, int(l.Capacity())+5, oneUnit("a", l))
		}
		times := l.BurstTimes()
		ceil := (l.Capacity()/times + instances - 1) / instances * times
		if int64(total) != instances*part.Capacity() || part.Capacity() > ceil {
			t.Errorf("%s: %d admitted, parts of %d, want %d × %d", l, total, part.Capacity(), instances, ceil)
		}
	}
}

func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := stint.Limit{
			Max:       rapid.Int64Range(0, stint.MaxUnits).Draw(t, "max") >> rapid.IntRange(0, 53).Draw(t, "shift"),
			Algorithm: rapid.SampledFrom([]stint.Algorithm{stint.Sliding, stint.Bucket, stint.Fixed, stint.Concurrency}).Draw(t, "algorithm"),
			Window: rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 1000003 * time.Microsecond, time.Minute, time.Hour,
				24 * time.Hour, 30 * 24 * time.Hour, stint.MaxWindow}).Draw(t, "window"),
		}
		switch l.Algorithm {
		case stint.Sliding:
			l = l.WithBurst(rapid.Int64Range(0, stint.MaxBurst).Draw(t, "times"))
		case stint.Bucket:
			l.Burst = rapid.Int64Range(0, stint.MaxUnits).Draw(t, "burst") >> rapid.IntRange(0, 53).Draw(t, "burst shift")
		}
		if l.Validate() != nil {
			t.Skip()
		}
		n := rapid.Int64Range(1, 1000).Draw(t, "instances")
		part := resilience.Divide(l, n)
		if err := part.Validate(); err != nil {
			t.Fatalf("%s among %d: %s: %v", l, n, part, err)
		}
		if !part.SameID(&l) || part.Max > l.Max || part.Capacity() > l.Capacity() || (part.Max == 0) != (l.Max == 0) || part.Span() != l.Span() {
			t.Fatalf("%s among %d is %s", l, n, part)
		}
	})
}

func TestDivideOddBuckets(t *testing.T) {
	// A million a day is round, a third of it is not.
	l := stint.TokenBucket(1_000_000, 1_000_000, 24*time.Hour)
	part := resilience.Divide(l, 3)
	if err := part.Validate(); err != nil || part.Max > 333_334 || part.Max < 333_000 || part.Burst != 333_334 {
		t.Errorf("%s: %v", part, err)
	}
}

func TestFallbackUsageIsThatOfTheWholeLimit(t *testing.T) {
	inner := newFlaky(t)
	inner.down()
	f := newFallback(t, inner, resilience.FallbackConfig{Instances: 4})
	limits := []stint.Limit{stint.PerHour(100), stint.PerDay(1000)}
	d := mustDecide(t, f, oneUnit("a", limits...))
	for i, want := range []int64{24, 249} {
		s := d.States()[i]
		if *s.Limit != limits[i] || s.Remaining() != want || s.Used != limits[i].Max-want {
			t.Errorf("%s: remaining %d, used %d, want %d left", s.Limit, s.Remaining(), s.Used, want)
		}
	}
	r := oneUnit("b", limits...)
	r.Cost = 26 // more than a part, less than the limit
	d = mustDecide(t, f, r)
	if d.Allowed || d.RetryAfter != time.Second || d.States()[0].RetryAfter != time.Second {
		t.Errorf("allowed %v, retry-after %v, want to try again soon", d.Allowed, d.RetryAfter)
	}
	r.Cost = 101
	if d = mustDecide(t, f, r); d.RetryAfter != stint.Never {
		t.Errorf("retry-after is %v, want never", d.RetryAfter)
	}
}

func TestFallbackLocalStateOutlivesFlaps(t *testing.T) {
	inner := newFlaky(t)
	f := newFallback(t, inner, resilience.FallbackConfig{Instances: 2})
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

func TestFallbackAmendments(t *testing.T) {
	inner := newFlaky(t)
	f := newFallback(t, inner, resilience.FallbackConfig{Instances: 2})
	other := newFallback(t, inner, resilience.FallbackConfig{Instances: 2})
	l := stint.PerHour(1000) // counted in slices: any charge of that time looks alike
	amend := func(s stint.Store, d stint.Decision, a stint.Amendment) (bool, error) {
		return s.Amend(t.Context(), d.Charge, a)
	}
	shared := mustDecide(t, f, oneUnit("a", l))
	inner.down()
	if _, err := amend(f, shared, stint.Amendment{}); !errors.Is(err, errDown) {
		t.Errorf("refund of a charge in the store: %v, want its error", err)
	}
	plain := mustDecide(t, f, oneUnit("b", l))
	r := oneUnit("c", l)
	r.ID, r.And = "id", []stint.Claim{{Subject: "d", Limits: []stint.Limit{stint.PerHour(50)}, Cost: 2}}
	several := mustDecide(t, f, r)
	mustDecide(t, other, oneUnit("b", l))
	if plain.Charge.Origin() != stint.FromFallback || several.Charge.Origin() != stint.FromFallback ||
		several.Charge.RequestID() != "id" || several.Charge.And()[0].Limits[0].Max != 50 {
		t.Errorf("charges %+v and %+v", plain.Charge, several.Charge)
	}
	for _, d := range []stint.Decision{plain, several} {
		if changed, err := amend(other, d, stint.Amendment{}); changed || err != nil {
			t.Errorf("in another process: %v, %v, want no change", changed, err)
		}
		before := inner.amends.Load()
		if changed, err := amend(f, d, stint.Amendment{}); !changed || err != nil {
			t.Errorf("%v, %v, want a change", changed, err)
		}
		if changed, err := amend(f, d, stint.Amendment{}); changed || err != nil {
			t.Errorf("again: %v, %v, want none", changed, err)
		}
		if inner.amends.Load() != before {
			t.Error("the store was asked")
		}
	}
	for subject, want := range map[string]int64{"b": 500, "c": 500} { // of which nothing is left to others
		if got := usedOf(t, f, subject, l); got != want {
			t.Errorf("%s has used %d, want %d", subject, got, want)
		}
	}
	if d := mustDecide(t, f, r); d.Repeat {
		t.Error("the refund did not forget the request ID")
	}
	holder := mustDecide(t, f, oneUnit("e", stint.AtOnce(2, time.Minute)))
	for _, kind := range []stint.AmendmentKind{stint.Extend, stint.Release} {
		if changed, err := amend(f, holder, stint.Amendment{Kind: kind}); !changed || err != nil {
			t.Errorf("holder: %v, %v", changed, err)
		}
	}
}

// A part of a local charge is amended locally, and only that is charged to the store
// less or more.
func TestFallbackAmendsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallback(t, inner, resilience.FallbackConfig{Instances: 1})
		requests, budget, ceiling := stint.PerHour(10), stint.PerHour(1000).WithName("budget"), stint.PerHour(5000)
		r := oneUnit("a", requests)
		r.And = []stint.Claim{
			{Subject: "a", Limits: []stint.Limit{budget}, Cost: 50},
			{Subject: "all", Limits: []stint.Limit{ceiling}, Cost: 50, Shared: true},
		}
		inner.fail(refusedCall())
		d := mustDecide(t, f, r)
		want := func(s stint.Store, n, units, total int64) {
			t.Helper()
			if a, b, c := usedOf(t, s, "a", requests), usedOf(t, s, "a", budget), usedOf(t, s, "all", ceiling); a != n || b != units || c != total {
				t.Errorf("used is %d, %d and %d, want %d, %d and %d", a, b, c, n, units, total)
			}
		}
		want(f, 1, 50, 50)
		for _, applies := range []bool{true, false} {
			changed, err := f.Amend(t.Context(), d.Charge.Part(1, 2), stint.Amendment{Cost: 30})
			if changed != applies || err != nil {
				t.Fatalf("settled the part: %v, %v, want %v", changed, err, applies)
			}
			want(f, 1, 30, 30)
		}
		inner.up()
		mustDecide(t, f, oneUnit("b", requests))
		synctest.Wait()
		want(inner, 1, 30, 30)
	})
}

func TestFallbackCommands(t *testing.T) {
	inner := newFlaky(t)
	f := newFallback(t, inner, resilience.FallbackConfig{})
	r := oneUnit("a", stint.PerHour(1))
	r.Bans = &stint.BanPolicy{}
	reset := stint.Command{Kind: stint.Reset, Subject: "a", Limits: r.Limits}
	mustDecide(t, f, r)
	inner.down()
	if mustDecide(t, f, r).Allowed {
		t.Error("not warned by what the store said")
	}
	for _, c := range []struct {
		command         stint.Command
		allowed, banned bool
	}{
		{reset, true, false},
		{stint.Command{Kind: stint.Ban, Subject: "a", For: time.Hour}, false, true},
		{stint.Command{Kind: stint.Unban, Subject: "a"}, false, false},
		{reset, true, false},
	} {
		if err := f.Command(t.Context(), c.command); !errors.Is(err, errDown) {
			t.Errorf("command: %v, want the store's error", err)
		}
		if d := mustDecide(t, f, r); d.Allowed != c.allowed || d.Banned != c.banned {
			t.Errorf("after command %d: allowed %v, banned %v", c.command.Kind, d.Allowed, d.Banned)
		}
	}
	inner.up()
	if err := f.Command(t.Context(), reset); err != nil {
		t.Error(err)
	}
}

// rosterOf counts what it is told to.
type rosterOf struct {
	count, calls atomic.Int64
	down         atomic.Bool
}

func (r *rosterOf) Present(context.Context, string) (int, error) {
	r.calls.Add(1)
	if r.down.Load() {
		return 0, errDown
	}
	return int(r.count.Load()), nil
}

func TestFallbackCountsInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roster, logs := new(rosterOf), new(logbook)
		inner := newFlaky(t)
		inner.down()
		roster.down.Store(true)
		f := newFallback(t, inner, resilience.FallbackConfig{Roster: roster, Logger: logs.logger()})
		synctest.Wait()
		if n := f.Instances(); n != 1 {
			t.Errorf("%d before anything is known, want 1", n)
		}
		for range 3 {
			mustDecide(t, f, oneUnit("a"))
		}
		if n := logs.count(slog.LevelWarn, "not known"); n != 1 {
			t.Errorf("%d warnings that nothing is known, want 1", n)
		}
		for _, step := range []struct {
			count, want int
			down        bool
			after       time.Duration
		}{
			{count: 4, want: 4, after: 2 * time.Second},
			{count: 5, want: 5, after: 2 * time.Second},
			{count: 9, want: 5, down: true, after: time.Minute}, // the last is kept
			{count: 1, want: 5, after: 5 * time.Second},         // a roster that lost its memory
			{count: 5, want: 5, after: 5 * time.Second},
			{count: 2, want: 2, after: 20 * time.Second},
			{count: 0, want: 2, after: 20 * time.Second}, // nonsense
		} {
			roster.count.Store(int64(step.count))
			roster.down.Store(step.down)
			time.Sleep(step.after)
			if n := f.Instances(); n != step.want {
				t.Errorf("counted %d, down %v: %d instances, want %d", step.count, step.down, n, step.want)
			}
		}
		f.Close()
		calls := roster.calls.Load()
		time.Sleep(time.Minute)
		if roster.calls.Load() != calls {
			t.Error("the heart beats after Close")
		}
	})
}

func TestFallbackLogsEpisodesNotDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		f := newFallback(t, inner, resilience.FallbackConfig{Instances: 1, Logger: logs.logger()})
		for range 20 { // it comes and goes, ten times a second
			inner.down()
			admitted(t, f, 50, oneUnit("a"))
			inner.up()
			mustDecide(t, f, oneUnit("a"))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		inner.down()
		admitted(t, f, 50, oneUnit("a"))
		inner.up()
		admitted(t, f, 5, oneUnit("a"))
		if n, m := logs.count(slog.LevelWarn, "cannot be asked"), logs.count(slog.LevelInfo, "again"); n != 2 || m != 2 {
			t.Errorf("%d lost, %d back, want two of each", n, m)
		}
		if n := logs.count(slog.LevelInfo, "decisions_without_it=1000"); n != 1 { // 19 times 50 that nothing was said of, and 50
			t.Errorf("the decisions are not all told: %s", logs.buf.String())
		}
	})
}

func TestFallbackIsLoudAboutAuth(t *testing.T) { // F29
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t), new(logbook)
		f := newFallback(t, inner, resilience.FallbackConfig{Instances: 1, Logger: logs.logger()})
		inner.fail(&stint.StoreError{Op: "take", Kind: stint.KindAuth, Err: errors.New("NOAUTH")})
		for range 60 {
			admitted(t, f, 10, oneUnit("a"))
			time.Sleep(500 * time.Millisecond)
		}
		if n, m := logs.count(slog.LevelError, "NOAUTH"), logs.count(slog.LevelWarn, ""); n != 3 || m != 0 {
			t.Errorf("%d errors and %d warnings in 30 s, want 3 and none: %s", n, m, logs.buf.String())
		}
		time.Sleep(10 * time.Second)
		_ = f.Command(t.Context(), stint.Command{Kind: stint.Unban, Subject: "a"})
		if n := logs.count(slog.LevelError, "password"); n != 4 {
			t.Errorf("%d errors after a command, want 4", n)
		}
	})
}

func TestFallbackClosed(t *testing.T) {
	inner := newFlaky(t)
	f := newFallback(t, inner, resilience.FallbackConfig{})
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
	f := newFallback(t, trivial{}, resilience.FallbackConfig{Observer: resilience.Silent{}})
	if n := testing.AllocsPerRun(1000, func() { _, _ = f.Take(ctx, r) }); n != 0 {
		t.Errorf("the store works: %v allocations a decision, want 0", n)
	}
	inner := newFlaky(t)
	inner.down()
	f = newFallback(t, inner, resilience.FallbackConfig{Instances: 3})
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
				_, _ = store.Take(ctx, stint.Request{Claim: stint.Claim{Subject: subjects[i%len(subjects)], Limits: limits, Cost: 1}})
			}
		})
	}
	none := func(*testing.B) stint.Store { return trivial{} }
	healthy := func(b *testing.B) stint.Store {
		return newFallback(b, trivial{}, resilience.FallbackConfig{Remember: resilience.DefaultRemember})
	}
	local := func(b *testing.B) stint.Store {
		inner := newFlaky(b)
		inner.down()
		return newFallback(b, inner, resilience.FallbackConfig{Instances: 3})
	}
	run("none", none, subjects)
	run("healthy", healthy, subjects)
	run("healthy, one subject", healthy, subjects[:1])
	run("local", local, subjects)
	run("local, one subject", local, subjects[:1])
}
