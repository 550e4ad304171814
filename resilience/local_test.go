package resilience

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/testkit"
)

// Decisions without the store are made as the request's policy says, or else the configuration's.
// They are marked and observed.
func TestFailureModes(t *testing.T) {
	local, allow, deny, fail := &stint.FailurePolicy{}, &stint.FailurePolicy{Mode: stint.FailAllow},
		&stint.FailurePolicy{Mode: stint.FailDeny}, &stint.FailurePolicy{Mode: stint.FailError}
	lease := stint.PerMinute(10).WithLease()
	with := func(p *stint.FailurePolicy, limits ...stint.Limit) stint.Request {
		r := oneUnit("a", limits...)
		r.Failure = p
		return r
	}
	fit, block := with(allow), with(allow, lease)
	fit.Terms().Fit, block.Terms().Lease = true, time.Second
	for name, test := range map[string]struct {
		config  stint.FailureMode
		request stint.Request
		want    string
	}{
		"config local":           {stint.FailLocal, with(nil), "allowed: local"},
		"config allow":           {stint.FailAllow, with(nil), "blindly allowed: allow"},
		"config deny":            {stint.FailDeny, with(nil), "denied: deny"},
		"config error":           {stint.FailError, with(nil), "error"},
		"request local":          {stint.FailDeny, with(local), "allowed: local"},
		"request allow":          {stint.FailDeny, with(allow), "blindly allowed: allow"},
		"request allow, limit 0": {stint.FailDeny, with(allow, stint.PerHour(0)), "blindly allowed: allow"},
		"request local, limit 0": {stint.FailDeny, with(local, stint.PerHour(0)), "denied: local"},
		"request deny":           {stint.FailAllow, with(deny), "denied: deny"},
		"request error":          {stint.FailAllow, with(fail), "error"},
		"leased, local":          {stint.FailLocal, with(local, lease), "denied: deny"},
		"leased, allow":          {stint.FailLocal, with(allow, lease), "denied: deny"},
		"leased, error":          {stint.FailLocal, with(fail, lease), "error"},
		"leased and not":         {stint.FailLocal, with(allow, lease, stint.PerHour(5)), "denied: deny"},
		"fit":                    {stint.FailLocal, fit, "error"},
		"a block":                {stint.FailLocal, block, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			var mode stint.FailureMode
			c := Config{Failure: stint.FailurePolicy{Mode: test.config}, Instances: 1,
				Observer: observerFunc(func(event stint.Event) {
					if e, ok := event.(*Decided); ok && e.Source == SourceFallback {
						mode = e.Mode
					}
				})}
			over(t, c, func(t *testing.T, store *fake, s *Stack) {
				store.down()
				d, err := s.Take(t.Context(), test.request)
				got := "denied: " + mode.String()
				switch {
				case err != nil:
					if got = "error"; !errors.Is(err, errDown) {
						t.Errorf("error is %v, want the store's", err)
					}
				case d.Allowed && len(d.States()) == 0: // nothing is known of what was used
					got = "blindly allowed: " + mode.String()
				case d.Allowed:
					got = "allowed: " + mode.String()
				}
				if got != test.want || err == nil && (!d.Degraded || d.Key() != "a") {
					t.Fatalf("%s, degraded %v, key %q; want %s", got, d.Degraded, d.Key(), test.want)
				}
				if got == "denied: deny" && (!d.Unavailable || d.RetryAfter != time.Second) {
					t.Errorf("unavailable %v, retry-after is %v, want 1s", d.Unavailable, d.RetryAfter)
				}
			})
		})
	}
}

// What is the caller's is returned, and is no failure of the store.
func TestMistakesOfCallers(t *testing.T) {
	logs := new(logbook)
	c := Config{Failure: stint.FailurePolicy{Mode: stint.FailAllow}, Logger: logs.logger()}
	over(t, c, func(t *testing.T, store *fake, s *Stack) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Take(ctx, oneUnit("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		invalid := &stint.InvalidError{Err: errDown}
		store.fail(invalid)
		if _, err := s.Take(t.Context(), oneUnit("a")); err != invalid {
			t.Errorf("mistake: %v", err)
		}
		if _, err := s.Take(t.Context(), stint.Request{}); !errors.As(err, &invalid) {
			t.Errorf("nothing asked: %v", err)
		}
		if logs.String() != "" {
			t.Errorf("logged: %s", logs)
		}
		// Not the caller's, though it looks like it: something within gave up.
		store.fail(&stint.StoreError{Op: "take", Err: context.Canceled})
		wantAdmitted(t, s, 1, oneUnit("a"), 1)
	})
	var invalid *stint.InvalidError
	for _, nothing := range []driver.BatchStore{nil, (*fake)(nil)} {
		if _, err := New(nothing, Config{}); !errors.As(err, &invalid) {
			t.Errorf("a stack on nothing: %v", err)
		}
	}
	for _, c := range []Config{{Instances: -1}, {LocalBytes: -1}, {BreakerFailures: -1}, {BreakerProbe: -1},
		{BreakerRetry: -1}, {MaxWaiting: -1}, {Denials: -1}, {Leases: -1}, {Failure: stint.FailurePolicy{Mode: 9}}} {
		if _, err := New(newFake(t), c); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A process that loses the store has its part of what was left, and says so in terms of the whole
// limit. F9
func TestPartOfWhatIsLeft(t *testing.T) {
	bucket := stint.TokenBucket(12, 12, time.Hour)
	fixed := stint.Limit{Max: 12, Window: 24 * time.Hour, Algorithm: stint.AlgorithmFixed}
	place := stint.Concurrency(12, time.Hour)
	for _, test := range []struct {
		limits       []stint.Limit
		others, used int // before
		instances    int
		want         int // that are admitted without the store
	}{
		{[]stint.Limit{stint.PerHour(12)}, 0, 0, 3, 4},
		{[]stint.Limit{stint.PerHour(10)}, 0, 0, 3, 4}, // rounded up
		{[]stint.Limit{stint.PerHour(1)}, 0, 0, 3, 1},
		{[]stint.Limit{stint.PerHour(10).BurstTimes(3)}, 0, 0, 3, 10},
		{[]stint.Limit{stint.TokenBucket(100, 70, time.Hour)}, 0, 0, 3, 34},
		{[]stint.Limit{fixed}, 0, 0, 5, 3},
		{[]stint.Limit{place}, 0, 0, 5, 3},
		{[]stint.Limit{stint.PerHour(12)}, 0, 4, 3, 3}, // 8 left, among 3
		{[]stint.Limit{stint.PerHour(12)}, 0, 11, 3, 1},
		{[]stint.Limit{stint.PerHour(12)}, 0, 12, 3, 0},
		{[]stint.Limit{stint.PerHour(12)}, 0, 7, 1, 5},
		{[]stint.Limit{stint.PerHour(10)}, 9, 1, 2, 0},
		{[]stint.Limit{stint.PerDay(1000)}, 0, 200, 10, 80},
		{[]stint.Limit{stint.PerHour(4).BurstTimes(3)}, 0, 12, 3, 0},
		{[]stint.Limit{bucket}, 0, 9, 3, 1},
		{[]stint.Limit{fixed}, 0, 9, 3, 1},
		{[]stint.Limit{stint.PerHour(100), stint.PerDay(12), bucket}, 0, 12, 2, 0},
		{[]stint.Limit{place}, 0, 9, 3, 1},
	} {
		over(t, among(test.instances), func(t *testing.T, store *fake, s *Stack) {
			r := oneUnit("a", test.limits...)
			admitted(t, store, test.others, r)
			admitted(t, s, test.used, r)
			store.fail(refusedCall())
			if got := admitted(t, s, test.used+120, r); got != test.want {
				t.Errorf("%+v: %d admitted", test, got)
			}
			wantAdmitted(t, s, 1, oneUnit("stranger", test.limits...), 1)
		})
	}
	over(t, among(4), func(t *testing.T, store *fake, s *Stack) {
		store.down()
		d := mustDecide(t, s, oneUnit("a", stint.PerHour(100), stint.PerDay(1000)))
		for i, want := range []int64{24, 249} {
			if u := d.States()[i]; u.Remaining() != want || u.Used != u.Limit.Max-want {
				t.Errorf("%s: remaining %d, used %d, want %d left", u.Limit, u.Remaining(), u.Used, want)
			}
		}
		// More than a part, less than the limit; and more than that.
		for cost, want := range map[int64]time.Duration{26: time.Second, 101: stint.Never} {
			if d := mustDecide(t, s, ask("b", cost, stint.PerHour(100))); d.Allowed || d.RetryAfter != want {
				t.Errorf("%d of 100: allowed %v, retry-after %v, want %v", cost, d.Allowed, d.RetryAfter, want)
			}
		}
	})
}

// What others have used of a fixed window or of a period of the calendar counts until its end,
// however long ago the store's last answer was.
func TestOthersCountUntilTheEnd(t *testing.T) {
	for _, l := range []stint.Limit{stint.Daily(10), {Max: 10, Window: 24 * time.Hour, Algorithm: stint.AlgorithmFixed}} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(24*time.Hour - 10*time.Minute) // a day with a store takes minutes
			store := newFake(t)
			s, r := newStack(t, store, among(2)), oneUnit("a", l)
			wantAdmitted(t, store, 9, r, 9)
			wantAdmitted(t, s, 2, r, 1)
			time.Sleep(5 * time.Minute)
			store.down()
			wantAdmitted(t, s, 10, r, 0)
			time.Sleep(5 * time.Minute)
			wantAdmitted(t, s, 10, r, 5)
		})
	}
}

// A ban that the store told of is known to those whom it concerns, until its end, whoever asks in
// between without looking for bans. A command takes effect here although the store fails.
func TestBansAndCommandsWithoutTheStore(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		r, shared, free := oneUnit("a"), oneUnit("a"), oneUnit("a")
		r.Bans, shared.Bans, shared.Claims[0].Shared = &stint.BanPolicy{}, &stint.BanPolicy{}, true
		mustCommand(t, store.Store, stint.Command{Kind: stint.CommandBan, Subject: "a", For: time.Minute})
		for _, err := range []error{nil, refusedCall()} {
			store.fail(err)
			for range 2 {
				wantAdmitted(t, s, 1, shared, 1)
				wantAdmitted(t, s, 1, free, 1)
				if !mustDecide(t, s, r).Banned {
					t.Errorf("%v: not banned", err)
				}
			}
		}
		time.Sleep(20 * time.Second)
		if d := mustDecide(t, s, r); !d.Banned || d.RetryAfter != 40*time.Second {
			t.Errorf("banned %v, retry-after %v, want 40s more", d.Banned, d.RetryAfter)
		}
		time.Sleep(40 * time.Second)
		wantAdmitted(t, s, 1, r, 1)

		one := oneUnit("b", stint.PerHour(1))
		one.Bans = &stint.BanPolicy{}
		wantAdmitted(t, s, 2, one, 1)
		for _, step := range []struct {
			command         stint.Command
			allowed, banned bool
		}{
			{resetOf(one.Claims[0]), true, false},
			{stint.Command{Kind: stint.CommandBan, Subject: "b", For: time.Hour}, false, true},
			{stint.Command{Kind: stint.CommandUnban, Subject: "b"}, false, false},
		} {
			if err := s.Command(t.Context(), step.command); !errors.Is(err, errDown) {
				t.Errorf("command: %v, want the store's error", err)
			}
			if d := mustDecide(t, s, one); d.Allowed != step.allowed || d.Banned != step.banned {
				t.Errorf("after command %d: allowed %v, banned %v", step.command.Kind, d.Allowed, d.Banned)
			}
		}
	})
}

// Units go back to the store if that is there, else to the process's part of the limit.
func TestUnitsGivenBackWithoutTheStore(t *testing.T) {
	for _, l := range []stint.Limit{stint.PerHour(1000), stint.PerHour(10), stint.TokenBucket(10, 10, time.Hour)} {
		over(t, among(2), func(t *testing.T, store *fake, s *Stack) {
			c := stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: []stint.Limit{l}, Units: 2}
			store.fail(storeError(stint.KindUnreachable), "take", "peek")
			wantAdmitted(t, s, 1, ask("a", l.Capacity()/2, l), 1)
			mustCommand(t, s, c)
			wantAdmitted(t, s, 1, oneUnit("a", l), 0)
			store.down()
			if err := s.Command(t.Context(), c); !errors.Is(err, errDown) {
				t.Errorf("%s: got %v, want the store's error", l, err)
			}
			wantAdmitted(t, s, 3, oneUnit("a", l), 2)
		})
	}
}

// roster is a store that counts processes.
type roster struct {
	*fake
	count, calls atomic.Int64
}

func (r *roster) Present(ctx context.Context, p driver.Presence) (driver.Presence, error) {
	r.calls.Add(1)
	_, err := r.begin(ctx, "present")
	return driver.Presence{ID: p.ID, Processes: int(r.count.Load())}, err
}

// Processes count each other in the store; the last count stands while that fails, and the largest
// of the last ten: a store that lost its state counts from one again.
func TestInstancesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, logs := &roster{fake: newFake(t)}, new(logbook)
		store.down()
		c := alone
		c.Instances, c.Logger = 0, logs.logger()
		s := newStack(t, store, c)
		admitted(t, s, 3, oneUnit("a"))
		if n := logs.count(slog.LevelWarn, "is unknown"); n != 1 || s.Instances() != 1 {
			t.Errorf("%d warnings that nothing is known, %d instances, want 1 and 1", n, s.Instances())
		}
		for _, step := range []struct {
			count, want int
			down        bool
			after       time.Duration
		}{
			{count: 4, want: 4, after: 2 * time.Second},
			{count: 5, want: 5, after: 2 * time.Second},
			{count: 9, want: 5, down: true, after: time.Minute},
			{count: 1, want: 5, after: 5 * time.Second},
			{count: 5, want: 5, after: 5 * time.Second},
			{count: 2, want: 2, after: 20 * time.Second},
			{count: 0, want: 2, after: 20 * time.Second}, // nonsense
		} {
			store.count.Store(int64(step.count))
			if store.up(); step.down {
				store.down()
			}
			time.Sleep(step.after)
			if n := s.Instances(); n != step.want {
				t.Errorf("counted %d, down %v: %d instances, want %d", step.count, step.down, n, step.want)
			}
		}
		s.Close()
		calls := store.calls.Load()
		if time.Sleep(time.Minute); store.calls.Load() != calls {
			t.Error("it is counted after Close")
		}
	})
}

// A process that has just started waits for a second at most until it is connected and counted: it
// does not take itself to be alone before.
func TestProcessThatStarts(t *testing.T) {
	for name, test := range map[string]struct {
		fails    error
		slow     time.Duration // until the store answers
		admitted int
		degraded bool
	}{
		"connects":    {nil, 300 * time.Millisecond, 100, false},
		"loses it":    {refusedCall(), 300 * time.Millisecond, 10, true},
		"without one": {refusedCall(), 2 * time.Second, 100, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, start, c := &roster{fake: newFake(t)}, time.Now(), among(0)
			store.count.Store(10)
			store.hook(func(string) { time.Sleep(time.Until(start.Add(test.slow))) })
			store.fail(test.fails, "take", "peek")
			s := newStack(t, store, c)
			first := mustDecide(t, s, oneUnit("a", stint.PerHour(100)))
			if took := time.Since(start); first.Degraded != test.degraded || took > time.Second {
				t.Errorf("%s: degraded %v after %v", name, first.Degraded, took)
			}
			wantAdmitted(t, s, 99, oneUnit("a", stint.PerHour(100)), test.admitted-1)
		})
	}
}

// A repeat without the store has the charge of the first request, wherever that was charged: it is
// settled once between them, here and in the store.
func TestRepeatsHaveTheCharge(t *testing.T) {
	for _, local := range []bool{true, false} {
		over(t, alone, func(t *testing.T, store *fake, s *Stack) {
			l := stint.PerHour(1000)
			store.fail(refusedCall())
			mustDecide(t, s, oneUnit("a", l)) // now something is known of the subject
			if !local {
				store.up()
				time.Sleep(2 * time.Second)
			}
			first := mustDecide(t, s, named(ask("a", 5, l), "x"))
			time.Sleep(time.Millisecond)
			store.fail(refusedCall())
			again := mustDecide(t, s, named(ask("a", 3, l), "x"))
			if !again.Repeat || !again.Degraded || again.Charge.IsZero() || again.Charge.Claims()[0].Cost != 5 {
				t.Fatalf("repeat %+v", again)
			}
			wantOnce(t, s, again.Charge, settleTo(20), true)
			store.up()
			time.Sleep(3 * time.Second)
			wantOnce(t, s, first.Charge, settleTo(20), false)
			time.Sleep(3 * time.Second)
			wantUsed(t, store, "a", l, 21)
		})
	}
}

// A denial that overrules the store says when to come back.
func TestOverruledSaysWhenToRetry(t *testing.T) {
	each(t, eachKind(1, time.Hour), alone, func(t *testing.T, store *fake, s *Stack, limit stint.Limit) {
		r := oneUnit("a", limit)
		store.down()
		admitted(t, s, 20, r)
		store.up()
		d := mustDecide(t, s, r)
		if d.Allowed || d.RetryAfter == 0 || d.Usages()[0].RetryAfter == 0 {
			t.Errorf("allowed %v, retry after %v, usage %+v", d.Allowed, d.RetryAfter, d.Usages()[0])
		}
	})
}

// In the first window of an outage a process admits at least 95% of what an exact count admits,
// and never more than the limit, with 90% of it wanted.
func TestAdmitsInTheFirstWindow(t *testing.T) {
	testkit.SkipUnderRace(t)
	const window = 10 * time.Second
	for _, limit := range []stint.Limit{stint.Per(10, window), stint.Per(100, window)} {
		got, exact := 0, 0
		for seed := range uint64(30) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				reference, rng, start, r := newFake(t), rand.New(rand.NewPCG(seed, 1)), time.Now(), oneUnit("a", limit)
				var admitted []time.Duration
				for down := false; ; {
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(window) / 0.9 / float64(limit.Max)))
					at := time.Since(start)
					if at > 4*window {
						break
					}
					if at > 3*window && !down {
						store.fail(refusedCall())
						down = true
					}
					if mustDecide(t, reference, r).Allowed && down {
						exact++
					}
					if !mustDecide(t, s, r).Allowed {
						continue
					}
					if down {
						got++
					}
					admitted = append(admitted, at)
					if n := len(admitted) - int(limit.Max) - 1; n >= 0 && at-admitted[n] < window {
						t.Fatalf("seed %d: more than %v until %v", seed, limit, at)
					}
				}
			})
		}
		t.Logf("%v: %d of %d", limit, got, exact)
		if got*100 < exact*95 {
			t.Errorf("%v: %d admitted, want at least 95 %% of %d", limit, got, exact)
		}
	}
}

// TestLocalChargesAreAmended checks that a local charge is amended in the process that made it, once,
// and that its refund forgets the ID of its request.
func TestLocalChargesAreAmended(t *testing.T) {
	over(t, among(2), func(t *testing.T, store *fake, s *Stack) {
		other, l := newStack(t, store, among(2)), stint.PerHour(1000)
		shared := mustDecide(t, s, oneUnit("a", l))
		store.down()
		r := named(and(oneUnit("c", l, stint.PerHour(20).WithName("other")), ask("d", 2, stint.PerHour(50))), "id")
		for _, d := range []stint.Decision{mustDecide(t, s, oneUnit("b", l)), mustDecide(t, s, r)} {
			wantOnce(t, other, d.Charge, settleTo(0), false)
			wantOnce(t, s, d.Charge, settleTo(0), true)
		}
		for _, subject := range []string{"b", "c"} {
			wantUsed(t, s, subject, l, 500) // of which nothing is left to others
		}
		if mustDecide(t, s, r).Repeat {
			t.Error("the refund did not forget the request ID")
		}
		for range 5 { // holders that died do not count
			time.Sleep(3 * time.Minute)
			holder := mustDecide(t, s, oneUnit("e", stint.Concurrency(1, time.Minute)))
			if !holder.Allowed {
				t.Error("a place is not given")
			}
			wantChange(t, s, holder.Charge, extend, true)
		}
		wantChange(t, s, shared.Charge, settleTo(0), true) // later, in the store
	})
}

// TestPartOfALocalChargeIsSettled checks that some claims of a local charge are settled once, here
// and in the store, and that the others stay as they were charged.
func TestPartOfALocalChargeIsSettled(t *testing.T) {
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		requests, budget := stint.PerHour(10), stint.PerHour(1000).WithName("budget")
		store.fail(refusedCall())
		d := mustDecide(t, s, and(oneUnit("a", requests), and(ask("a", 50, budget), ask("all", 50, budget))))
		check := func(s stint.Store) {
			t.Helper()
			wantUsed(t, s, "a", requests, 1)
			wantUsed(t, s, "a", budget, 30)
			wantUsed(t, s, "all", budget, 30)
		}
		wantOnce(t, s, d.Charge.Part(1, 2), settleTo(30), true)
		check(s)
		store.up()
		time.Sleep(2 * time.Second)
		check(store)
	})
}

// TestBanThroughAnOutage checks that a ban that is in force when the store goes away lasts as long as
// it would have, and not longer.
func TestBanThroughAnOutage(t *testing.T) {
	each(t, failures, alone, func(t *testing.T, store *fake, s *Stack, fail func(*fake)) {
		r := oneUnit("a", stint.PerSecond(2))
		r.Bans = banAfter(3, 90*time.Second)
		wantAdmitted(t, s, 5, r, 2)
		end := time.Now().Add(90 * time.Second)
		fail(store)
		for range 9 {
			d := mustDecide(t, s, r)
			if left := time.Until(end); d.Allowed || !d.Banned || d.RetryAfter < left {
				t.Fatalf("allowed %v, banned %v, retry after %v, want %v", d.Allowed, d.Banned, d.RetryAfter, left)
			}
			time.Sleep(9999 * time.Millisecond)
		}
		time.Sleep(time.Until(end.Add(lateBy))) // a ban that an answer tells of begins when that comes
		if d := mustDecide(t, s, r); !d.Allowed || d.Banned {
			t.Errorf("at the end: allowed %v, banned %v, retry after %v", d.Allowed, d.Banned, d.RetryAfter)
		}
	})
}
