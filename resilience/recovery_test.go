package resilience

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/memorystore"
)

// A process that loses the store has its part of what was left.
func TestFallbackBeginsWithWhatIsKnown(t *testing.T) {
	bucket := stint.TokenBucket(12, 12, time.Hour)
	fixed := stint.Limit{Max: 12, Window: 24 * time.Hour, Algorithm: stint.AlgorithmFixed}
	tests := []struct {
		limits    []stint.Limit
		used      int
		instances int
		want      int // that are admitted without the store
	}{
		{[]stint.Limit{stint.PerHour(12)}, 0, 3, 4},
		{[]stint.Limit{stint.PerHour(12)}, 3, 3, 3},
		{[]stint.Limit{stint.PerHour(12)}, 4, 3, 3}, // 8 left, among 3
		{[]stint.Limit{stint.PerHour(12)}, 11, 3, 1},
		{[]stint.Limit{stint.PerHour(12)}, 12, 3, 0},
		{[]stint.Limit{stint.PerHour(12)}, 7, 1, 5},
		{[]stint.Limit{stint.PerHour(1000)}, 500, 2, 250},
		{[]stint.Limit{stint.PerHour(4).WithBurst(3)}, 12, 3, 0},
		{[]stint.Limit{bucket}, 9, 3, 1},
		{[]stint.Limit{fixed}, 9, 3, 1},
		{[]stint.Limit{stint.PerHour(100), stint.PerDay(12), bucket}, 12, 2, 0},
		{[]stint.Limit{stint.AtOnce(12, time.Hour)}, 9, 3, 1},
	}
	for _, test := range tests {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: test.instances})
		r := oneUnit("a", test.limits...)
		admitted(t, f, test.used, r)
		inner.fail(refusedCall())
		if got := admitted(t, f, test.used+20+int(test.limits[0].Max), r); got != test.want {
			t.Errorf("%v, %d used, %d instances: %d admitted, want %d", test.limits, test.used, test.instances,
				got, test.want)
		}
		if got := admitted(t, f, 1, oneUnit("stranger", test.limits...)); got != 1 {
			t.Error("a stranger is denied")
		}
	}
}

func TestFallbackKnowsOthersUseToo(t *testing.T) {
	inner := newFlaky(t)
	f := newFallbackFor(t, inner, Config{Instances: 2})
	r := oneUnit("a", stint.PerHour(10))
	admitted(t, inner, 9, r) // by another process
	mustDecide(t, f, r)
	inner.fail(refusedCall())
	if n := admitted(t, f, 10, r); n != 0 {
		t.Errorf("%d admitted of a limit that was used up, want 0", n)
	}
}

// A caller who never went over is not refused because the store is gone.
func TestFallbackLetsASteadyCallerGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 1})
		r := oneUnit("a", stint.PerMinute(120))
		for range 120 { // 100 a minute
			if !mustDecide(t, f, r).Allowed {
				t.Fatal("denied by the store")
			}
			time.Sleep(600 * time.Millisecond)
		}
		inner.fail(refusedCall())
		for i := range 300 {
			if !mustDecide(t, f, r).Allowed {
				t.Fatalf("denied in the outage, request %d", i)
			}
			time.Sleep(600 * time.Millisecond)
		}
	})
}

func TestFallbackForgetsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 1})
		r := oneUnit("a", stint.PerMinute(10))
		admitted(t, f, 10, r)
		time.Sleep(59 * time.Second)
		inner.fail(refusedCall())
		if n := admitted(t, f, 1, r); n != 0 {
			t.Error("admitted a second before all is free")
		}
		time.Sleep(5 * time.Second) // a sixteenth of the window longer than in the store
		if n := admitted(t, f, 20, r); n != 10 {
			t.Errorf("%d admitted once all was free again, want 10", n)
		}
	})
}

func TestFallbackKnowsBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 1})
		r := oneUnit("a")
		r.Bans = &stint.BanPolicy{}
		if err := inner.Command(t.Context(),
			stint.Command{Kind: stint.CommandBan, Subject: "a", For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		mustDecide(t, f, r)
		inner.fail(refusedCall())
		time.Sleep(20 * time.Second)
		if d := mustDecide(t, f, r); !d.Banned || d.RetryAfter != 40*time.Second {
			t.Errorf("banned %v, retry-after %v, want 40s more", d.Banned, d.RetryAfter)
		}
		time.Sleep(40 * time.Second)
		if d := mustDecide(t, f, r); d.Banned {
			t.Error("banned for longer than the store said")
		}
	})
}

// A ban that the store told of is known to those who obey it, whoever asks in between without
// looking for bans.
func TestFallbackKnowsBansBesideThoseWhoDoNotObey(t *testing.T) {
	for name, change := range map[string]func(*stint.Request){
		"shared":    func(r *stint.Request) { r.Claims[0].Shared = true },
		"no policy": func(r *stint.Request) { r.Bans = nil },
	} {
		t.Run(name, func(t *testing.T) {
			inner := newFlaky(t)
			f := newFallbackFor(t, inner, Config{Instances: 1})
			r := oneUnit("a")
			r.Bans = &stint.BanPolicy{}
			free := r
			free.Claims = slices.Clone(r.Claims)
			change(&free)
			if err := inner.Command(t.Context(),
				stint.Command{Kind: stint.CommandBan, Subject: "a", For: time.Minute}); err != nil {
				t.Fatal(err)
			}
			check := func(when string) {
				t.Helper()
				if d := mustDecide(t, f, r); !d.Banned {
					t.Errorf("%s: who obeys bans is not banned", when)
				}
				if d := mustDecide(t, f, free); !d.Allowed || d.Banned {
					t.Errorf("%s: who does not is allowed %v, banned %v", when, d.Allowed, d.Banned)
				}
			}
			check("with the store")
			inner.fail(refusedCall())
			mustDecide(t, f, free)
			check("without")
		})
	}
}

func TestFallbackChargesTheStoreAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 2})
		minute, day, hold := stint.PerMinute(10), stint.PerDay(100), stint.AtOnce(50, time.Hour)
		r := oneUnit("a", minute, day, hold)
		r.Claims = append(
			r.Claims[:1:1],
			[]stint.Claim{{Subject: "all", Scope: "s", Limits: []stint.Limit{day}, Cost: 2}}...)
		inner.fail(refusedCall())
		admitted(t, f, 5, r)
		time.Sleep(2 * time.Minute)
		last := r
		last.Claims = slices.Clone(last.Claims)
		last.Claims[0].Cost = 3
		d := mustDecide(t, f, last)
		refunded := mustDecide(t, f, oneUnit("b", day))
		if ok, err := f.Amend(t.Context(), refunded.Charge, stint.Amendment{}); !ok.Changed || err != nil {
			t.Errorf("refund: %v, %v", ok, err)
		}
		if !d.Allowed || inner.Store.(*memorystore.Store).Stats().Subjects != 0 {
			t.Fatal("the store knows something already")
		}
		inner.up()
		time.Sleep(2 * time.Second)
		for _, want := range []struct {
			limit stint.Limit
			used  int64
		}{{minute, 3}, {day, 8}, {hold, 0}} {
			if got := usedOf(t, inner, "a", want.limit); got != want.used {
				t.Errorf("%s: the store has counted %d, want %d", want.limit, got, want.used)
			}
		}
		scoped := oneUnit("all", day)
		scoped.Claims[0].Scope, scoped.Claims[0].Cost = "s", 0
		all := mustDecide(t, inner, scoped)
		if got := all.Usages()[0].Used; got != 12 {
			t.Errorf("the store has counted %d of the other claim, want 12", got)
		}
		if got := usedOf(t, inner, "b", day); got != 0 {
			t.Errorf("the store was charged %d that were refunded", got)
		}
		// And once only.
		inner.fail(refusedCall())
		mustDecide(t, f, oneUnit("other"))
		inner.up()
		time.Sleep(2 * time.Second)
		if got := usedOf(t, inner, "a", day); got != 8 {
			t.Errorf("the store has counted %d after another outage, want 8", got)
		}
	})
}

// What was granted without the store is charged to it above capacity too: else who uses both gets
// more.
func TestFallbackChargesAboveCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 1})
		r := oneUnit("a", stint.PerHour(10))
		inner.fail(refusedCall())
		admitted(t, f, 8, r)
		inner.up()
		admitted(t, inner, 6, r) // by others, who had the store back before us
		time.Sleep(2 * time.Second)
		if got := usedOf(t, inner, "a", r.Claims[0].Limits[0]); got != 14 {
			t.Errorf("the store has counted %d, want 14", got)
		}
	})
}

func TestFallbackGoesOnChargingAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 1})
		inner.fail(refusedCall())
		for i := range 50 {
			mustDecide(t, f, oneUnit(fmt.Sprint(i), stint.PerHour(10)))
		}
		left := 20
		var mu sync.Mutex
		inner.up()
		inner.hook(func(string) { // it fails again in the middle
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				inner.fail(refusedCall())
			}
		})
		mustDecide(t, f, oneUnit("other"))
		time.Sleep(time.Minute + time.Second/2) // between two probes
		inner.hook(nil)
		inner.up()
		charged := func() (n int64) {
			for i := range 50 {
				n += usedOf(t, inner, fmt.Sprint(i), stint.PerHour(10))
			}
			return n
		}
		if n := charged(); n == 0 || n > 19 {
			t.Errorf("%d charged before the failure, want 1 to 19", n)
		}
		time.Sleep(5 * time.Second)
		if n := charged(); n != 50 {
			t.Errorf("%d charged in the end, want 50", n)
		}
	})
}

func TestFallbackKeepsABoundedNumberOfDebts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, logs := newFlaky(t, openMemory(t).Store), new(logbook)
		f := newFallbackFor(t, inner, Config{Instances: 1, Logger: logs.logger(), LocalBytes: 1 << 20})
		inner.fail(refusedCall())
		const subjects = 10_000
		for i := range subjects {
			mustDecide(t, f, oneUnit(fmt.Sprint(i), stint.PerHour(10)))
		}
		inner.up()
		before := inner.takes.Load()
		time.Sleep(10 * time.Minute)
		if n := inner.takes.Load() - before; n < 1000 || n > (1<<20)/recordBytes+1 { // and a probe
			t.Errorf("%d calls to the store, want as many as fit", n)
		}
		if n := logs.count(slog.LevelWarn, "dropped="); n == 0 {
			t.Errorf("nothing about what was dropped: %s", logs)
		}
	})
}

// More subjects than ever owe something to a store that is back are charged, each as it should.
func TestF55ManySubjectsOwe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const subjects = 100_000
		store, err := memorystore.New(memorystore.Config{MaxSubjects: 2 * subjects, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		inner := newFlaky(t, store)
		f := newFallbackFor(t, inner, Config{Instances: 1})
		inner.fail(refusedCall())
		for i := range subjects {
			mustDecide(t, f, oneUnit(fmt.Sprint(i), stint.PerHour(10)))
		}
		inner.up()
		time.Sleep(10 * time.Minute)
		for i := range subjects {
			if got := usedOf(t, inner.Store, fmt.Sprint(i), stint.PerHour(10)); got != 1 {
				t.Fatalf("the store has counted %d of subject %d, want 1", got, i)
			}
		}
	})
}

// slowToCharge never answers what charges it afterwards.
type slowToCharge struct{ *flaky }

func (s slowToCharge) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if r.Mode == driver.ModeForce {
		<-ctx.Done()
		return stint.Decision{}, &stint.StoreError{Op: "take", Kind: errkind.Timeout, Err: ctx.Err()}
	}
	return s.flaky.Take(ctx, r)
}

func TestFallbackChargingBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := slowToCharge{newFlaky(t)}
		f := newFallbackFor(t, inner, Config{Instances: 1})
		inner.fail(refusedCall())
		mustDecide(t, f, oneUnit("a"))
		inner.up()
		time.Sleep(500 * time.Millisecond) // it is being charged
		begin := time.Now()
		for range 100 {
			if d := mustDecide(t, f, oneUnit("a")); d.Degraded {
				t.Fatal("the store was not asked")
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("callers waited for %v", took)
		}
		f.Close()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("Close took %v, want a second at most", took)
		}
	})
}

// Everything at once, for the race detector; and never more than the bound.
func TestFallbackUnderFlaps(t *testing.T) {
	inner := newFlaky(t)
	f := newFallbackFor(t, inner, Config{Instances: 1})
	const limit = 500
	var mu sync.Mutex
	total := 0
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for k := range 500 {
				r := oneUnit("hot", stint.PerHour(limit))
				if k%3 == 0 {
					r.Claims = append(r.Claims[:1:1], []stint.Claim{{Subject: fmt.Sprint("cold", k%7),
						Limits: []stint.Limit{stint.PerHour(1 << 40)}, Cost: 1}}...)
				}
				d, err := f.Take(context.Background(), r)
				if err != nil {
					t.Error(err)
				} else if d.Allowed {
					mu.Lock()
					total++
					mu.Unlock()
				}
				if i == 0 && k%10 == 0 {
					inner.fail(refusedCall())
				} else if i == 0 && k%10 == 5 {
					inner.up()
				}
			}
		})
	}
	callers.Wait()
	// One process has the same limit with the store and without. What was overruled at the end is
	// still being given back.
	if total > limit || total < limit-8 {
		t.Errorf("%d admitted, want %d", total, limit)
	}
}

// refusedCall is the error of a call that surely was not made.
func refusedCall() error {
	return &stint.StoreError{Op: "take", Kind: errkind.Refused, Err: errDown}
}

// What was granted without the store is charged to it whatever the failure was, and once: under the
// request's ID if it has one.
func TestFallbackOwesEverythingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 1})
		once := oneUnit("b")
		once.ID = "x"
		for _, test := range []struct {
			failure error
			request stint.Request
		}{{unreachable(), oneUnit("a")}, {refusedCall(), once}} {
			inner.fail(test.failure)
			if d, err := f.Take(t.Context(), test.request); err != nil || !d.Degraded || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		inner.up()
		if d := mustDecide(t, f, once); !d.Allowed { // the caller repeats it
			t.Error("the repeat is denied")
		}
		time.Sleep(5 * time.Second)
		for _, r := range []stint.Request{oneUnit("a"), once} {
			if got := usedOf(t, inner, r.Claims[0].Subject, r.Claims[0].Limits[0]); got != 1 {
				t.Errorf("%s: the store has counted %d, want 1", r.Claims[0].Subject, got)
			}
		}
	})
}
