package resilience

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// Three processes without the store admit no more than their parts. F9.
func TestFallbackDividesLimits(t *testing.T) {
	const instances = 3
	for _, l := range []stint.Limit{
		stint.PerHour(10), stint.PerHour(1), stint.PerHour(9), stint.PerHour(1000), stint.PerHour(10).WithBurst(3),
		stint.TokenBucket(10, 1, time.Hour), stint.TokenBucket(100, 70, time.Hour),
		{Max: 10, Window: 24 * time.Hour, Algorithm: stint.AlgorithmFixed}, stint.AtOnce(10, time.Hour),
	} {
		total := int64(0)
		for range instances {
			inner := newFlaky(t)
			inner.down()
			f := newFallbackFor(t, inner, Config{Instances: instances})
			total += int64(admitted(t, f, int(l.Capacity())+5, oneUnit("a", l)))
		}
		if part := (l.Capacity() + instances - 1) / instances; total != instances*part {
			t.Errorf("%s: %d admitted, want %d × %d", l, total, instances, part)
		}
	}
}

func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := stint.Limit{
			Max: rapid.Int64Range(0, stint.MaxUnits).Draw(t, "max") >> rapid.IntRange(0, 53).Draw(t, "shift"),
			Algorithm: rapid.SampledFrom([]stint.Algorithm{stint.AlgorithmSliding, stint.AlgorithmBucket,
				stint.AlgorithmFixed, stint.AlgorithmConcurrency}).Draw(t, "algorithm"),
			Window: rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 1000003 * time.Microsecond,
				time.Minute, time.Hour,
				24 * time.Hour, 30 * 24 * time.Hour, stint.MaxWindow}).Draw(t, "window"),
		}
		switch l.Algorithm {
		case stint.AlgorithmSliding:
			l = l.WithBurst(rapid.Int64Range(0, stint.MaxBurst).Draw(t, "times"))
		case stint.AlgorithmBucket:
			l.Burst = rapid.Int64Range(0, stint.MaxUnits).Draw(t, "burst") >> rapid.IntRange(0, 53).Draw(
				t, "burst shift")
		}
		if l.Validate() != nil {
			t.Skip()
		}
		n := rapid.Int64Range(1, 1000).Draw(t, "instances")
		part := divide(l, n)
		if err := part.Validate(); err != nil {
			t.Fatalf("%s among %d: %s: %v", l, n, part, err)
		}
		if !contract.SameID(&part, &l) || part.Max > l.Max || part.Capacity() > l.Capacity() ||
			(part.Max == 0) != (l.Max == 0) {
			t.Fatalf("%s among %d is %s", l, n, part)
		}
	})
}

func TestDivideOddBuckets(t *testing.T) {
	// A million a day is round, a third of it is not.
	l := stint.TokenBucket(1_000_000, 1_000_000, 24*time.Hour)
	part := divide(l, 3)
	if err := part.Validate(); err != nil || part.Max > 333_334 || part.Max < 333_000 || part.Burst != 333_334 {
		t.Errorf("%s: %v", part, err)
	}
}

func TestDivideOddBursts(t *testing.T) {
	for _, test := range []struct {
		limit stint.Limit
		want  string // the parts of three processes
	}{
		{stint.PerMinute(10).WithBurst(2), "4/1m burst 2x"},
		{stint.PerMinute(10).WithBurst(1), "4/1m burst 1x"},
		// The window is a prime number of microseconds, and a third of its rate has no divisor in
		// common with it.
		{stint.Per(3_000_009_000_000, 1_000_003*time.Microsecond).WithBurst(3), "1000003000000/1.000003s burst 3x"},
		{stint.Per(2_000_006_000_000, 1_000_003*time.Microsecond).WithBurst(3), "666667999998/1.000003s burst 3x"},
		{stint.Per(1_000_003, 1_000_003*time.Microsecond).WithBurst(100), "333335/1.000003s burst 100x"},
		{stint.Per(31_622_400_000_001*100, stint.MaxWindow-time.Microsecond), "1054080000000034/365d23h59m59.999999s"},
		{stint.Per(31_622_399_999_999, stint.MaxWindow-time.Microsecond).WithBurst(100),
			"10540800000000/365d23h59m59.999999s"},
	} {
		part := divide(test.limit, 3)
		if err := part.Validate(); part.String() != test.want || err != nil {
			t.Errorf("%s (%v): got %s (%v), want %s", test.limit, test.limit.Validate(), part, err, test.want)
		}
	}
}

func TestFallbackUsageIsThatOfTheWholeLimit(t *testing.T) {
	inner := newFlaky(t)
	inner.down()
	f := newFallbackFor(t, inner, Config{Instances: 4})
	limits := []stint.Limit{stint.PerHour(100), stint.PerDay(1000)}
	d := mustDecide(t, f, oneUnit("a", limits...))
	for i, want := range []int64{24, 249} {
		s := d.States()[i]
		if *s.Limit != limits[i] || s.Remaining() != want || s.Used != limits[i].Max-want {
			t.Errorf("%s: remaining %d, used %d, want %d left", s.Limit, s.Remaining(), s.Used, want)
		}
	}
	r := oneUnit("b", limits...)
	r.Claims[0].Cost = 26 // more than a part, less than the limit
	d = mustDecide(t, f, r)
	if d.Allowed || d.RetryAfter != time.Second || d.States()[0].RetryAfter != time.Second {
		t.Errorf("allowed %v, retry-after %v, want to try again soon", d.Allowed, d.RetryAfter)
	}
	r.Claims[0].Cost = 101
	if d = mustDecide(t, f, r); d.RetryAfter != stint.Never {
		t.Errorf("retry-after is %v, want never", d.RetryAfter)
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
		f := newFallbackFor(t, inner, Config{Logger: logs.logger()})
		f.countInstances(roster)
		synctest.Wait()
		if n := f.instances(); n != 1 {
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
			if n := f.instances(); n != step.want {
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
