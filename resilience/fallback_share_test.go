package resilience

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
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
