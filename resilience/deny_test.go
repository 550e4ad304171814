package resilience

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// denyRig is a stack that remembers denials, over a store that is asked about everything else.
type denyRig struct {
	*testing.T
	store *fake
	s     *Stack
}

// remembers is a configuration in which what the deny cache does not answer is asked of the store.
var remembers = Config{Instances: 1, NoLeases: true, BreakerFailures: math.MaxInt, Failure: patient}

// remembering runs a test of the deny cache, in virtual time.
func remembering(t *testing.T, test func(g denyRig)) {
	t.Helper()
	over(t, remembers, func(t *testing.T, store *fake, s *Stack) { test(denyRig{t, store, s}) })
}

// want takes, and checks the answer and whether the store was asked.
func (g denyRig) want(r stint.Request, allowed, asked bool) stint.Decision {
	g.Helper()
	calls := len(g.store.batches())
	d := mustDecide(g, g.s, r)
	if got := len(g.store.batches()) != calls; d.Allowed != allowed || got != asked {
		g.Fatalf("allowed is %v, want %v; the store was asked: %v, want %v", d.Allowed, allowed, got, asked)
	}
	return d
}

// full takes all that a request can have, and is denied once.
func (g denyRig) full(r stint.Request) stint.Decision {
	g.Helper()
	d := g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	return d
}

const (
	fromStore  = true
	fromMemory = false
)

// A denial is repeated for a second at most, and its times pass. It ends before, with its
// retry-after, and until then says to wait, however little is left.
func TestDenialIsRepeated(t *testing.T) {
	remembering(t, func(g denyRig) {
		r := ask("a", 1, stint.PerHour(1))
		g.want(r, true, fromStore)
		time.Sleep(time.Minute)
		first := g.want(r, false, fromStore)
		const passed = time.Second - time.Microsecond
		time.Sleep(passed)
		d := g.want(r, false, fromMemory)
		if want := first.RetryAfter - passed; d.RetryAfter != want || d.States()[0].RetryAfter != want ||
			d.Decisive().ResetAfter != first.Decisive().ResetAfter-passed || d.Key() != "a" || d.Remaining() != 0 ||
			d.Charge.Data().ID != 0 || *d.Decisive().Limit != stint.PerHour(1) {
			g.Errorf("%+v after %+v", d, first)
		}
		time.Sleep(time.Microsecond)
		g.want(r, false, fromStore)
	})
	remembering(t, func(g denyRig) {
		r := ask("a", 1, stint.Per(1, 100*time.Millisecond))
		g.full(r)
		time.Sleep(100*time.Millisecond - 100*time.Nanosecond)
		if d := g.want(r, false, fromMemory); d.RetryAfter != time.Microsecond {
			g.Errorf("retry-after is %v, want 1µs", d.RetryAfter)
		}
		time.Sleep(100 * time.Nanosecond)
		g.want(r, true, fromStore)

		// A limit that has room before the others says so.
		r = ask("b", 1, stint.Per(1, 100*time.Millisecond), stint.PerHour(1))
		g.full(r)
		time.Sleep(200 * time.Millisecond)
		d := g.want(r, false, fromMemory)
		if s := d.States(); s[0].RetryAfter != 0 || s[0].ResetAfter != 0 || s[1].RetryAfter != d.RetryAfter {
			g.Errorf("retry-after %v, states %+v", d.RetryAfter, s)
		}

		// What is never possible stays so.
		r = ask("c", 11, stint.PerHour(10), stint.PerDay(20))
		g.want(r, false, fromStore)
		time.Sleep(time.Second - 1)
		d = g.want(r, false, fromMemory)
		if s := d.States(); d.RetryAfter != stint.Never || s[0].RetryAfter != stint.Never || s[1].RetryAfter != 0 {
			g.Errorf("retry-after %v, states %+v", d.RetryAfter, s)
		}
	})
}

// Over a network that takes its time in both directions, no denial is repeated that the store would
// not make, and no caller is told to come before the store would admit it.
func TestDenialsAreTrueOverASlowNetwork(t *testing.T) {
	for _, l := range []stint.Limit{
		stint.Per(3, 700*time.Millisecond), stint.Per(300, 2*time.Second),
		stint.TokenBucket(5, 7, 1000003*time.Microsecond),
		{Max: 4, Window: 300 * time.Millisecond, Algorithm: stint.AlgorithmFixed}, stint.PerSecond(2).BurstTimes(3),
	} {
		remembering(t, func(g denyRig) {
			rand := rand.New(rand.NewPCG(1, uint64(l.Window)))
			var mu sync.Mutex // of the random numbers
			pause := func(draw func() float64) {
				mu.Lock()
				d := draw()
				mu.Unlock()
				time.Sleep(time.Duration(d) * time.Microsecond)
			}
			travel := func() { pause(func() float64 { return rand.Float64() * 60_000 }) }
			g.store.hook(func(string) { travel() })
			g.store.reply(func(*driver.Call) { travel() })
			hits, r := 0, ask("a", 1+l.Capacity()/3, l)
			for range 2000 {
				pause(func() float64 { return rand.ExpFloat64() * 20_000 })
				calls := len(g.store.batches())
				d := mustDecide(g, g.s, r)
				if len(g.store.batches()) != calls {
					continue
				}
				hits++
				truth := mustDecide(g, g.store, peek(r))
				if d.Allowed || truth.Allowed || d.RetryAfter < truth.RetryAfter || d.States()[0].RetryAfter < truth.RetryAfter {
					g.Fatalf("%s: answered %v, retry-after %v; in truth %v, %v", l, d.Allowed, d.RetryAfter,
						truth.Allowed, truth.RetryAfter)
				}
			}
			if hits == 0 {
				g.Errorf("%s: nothing was answered from memory", l)
			}
		})
	}
}

// Only what is sure to be denied again is answered from memory.
func TestRequestsThatPassTheDenyCacheBy(t *testing.T) {
	full := ask("a", 1, stint.PerHour(1))
	each(t, map[string]func(*stint.Request){
		"request id": func(r *stint.Request) { r.ID = "x" },
		"peek":       func(r *stint.Request) { r.Mode = stint.ModePeek },
		"reserve":    func(r *stint.Request) { r.Mode, r.MaxWait = stint.ModeReserve, time.Second },
		"fit":        func(r *stint.Request) { r.Terms().Fit = true },
		"lease":      func(r *stint.Request) { r.Terms().Lease = time.Second },
		"strikes":    func(r *stint.Request) { r.Bans = banAfter(100, time.Minute) },
		"strikes beside a shared subject": func(r *stint.Request) {
			*r = and(*r, ask("b", 1, stint.PerHour(1)))
			r.Claims[0].Shared, r.Bans = true, banAfter(100, time.Minute)
		},
		"concurrency": func(r *stint.Request) {
			r.Claims[0].Limits = []stint.Limit{stint.PerHour(1), stint.Concurrency(1, time.Hour)}
		},
		"concurrency of another": func(r *stint.Request) { *r = and(*r, ask("b", 1, stint.Concurrency(1, time.Hour))) },
	}, remembers, func(t *testing.T, store *fake, s *Stack, change func(*stint.Request)) {
		g := denyRig{t, store, s}
		r := ask("a", 1, stint.PerHour(1))
		g.full(r)
		change(&r)
		g.want(r, false, fromStore)
		g.want(r, false, fromStore)
		g.want(full, false, fromMemory)
	})
	remembering(t, func(g denyRig) {
		g.full(full)
		force := full
		force.Mode = driver.ModeForce
		g.want(force, true, fromStore)
		g.want(full, false, fromMemory)
	})
	remembering(t, func(g denyRig) { // what costs nothing is denied only in debt
		d := g.want(full, true, fromStore)
		mustAmend(g, g.store.Store, d.Charge, settleTo(5))
		g.want(ask("a", 0, stint.PerHour(1)), false, fromStore)
		g.want(ask("a", 0, stint.PerHour(1)), false, fromStore)
		r := and(ask("a", 0, stint.PerHour(1)), ask("b", 1, stint.PerHour(1)))
		g.want(r, false, fromStore) // one claim that costs is enough
		g.want(r, false, fromMemory)
	})
	for _, change := range []func(*stint.Decision){
		func(d *stint.Decision) { d.Degraded, d.Unavailable = true, true },
		func(d *stint.Decision) { d.Repeat = true },
		func(d *stint.Decision) { d.RetryAfter = 0 },
	} {
		remembering(t, func(g denyRig) {
			g.want(full, true, fromStore)
			g.store.reply(func(c *driver.Call) { change(&c.Decision) })
			g.want(full, false, fromStore)
			g.want(full, false, fromStore)
		})
	}
}

// A denial without the store is remembered for a tenth of the time, and an error not at all.
func TestDenialsWithoutTheStore(t *testing.T) {
	remembering(t, func(g denyRig) {
		r := ask("a", 1, stint.PerHour(1))
		r.Failure = &stint.FailurePolicy{}
		g.want(r, true, fromStore)
		g.store.down()
		g.want(r, false, fromStore)
		if d := g.want(r, false, fromMemory); !d.Degraded {
			g.Error("it is not said to be made without the store")
		}
		time.Sleep(100 * time.Millisecond)
		g.want(r, false, fromStore)
		if _, err := g.s.Take(g.Context(), ask("b", 1, stint.PerHour(1))); err == nil {
			g.Error("no error")
		}
		g.store.up()
		g.want(ask("b", 1, stint.PerHour(1)), true, fromStore)
	})
}

// Every denial that counts reaches the store; once banned, none needs to.
func TestDenialsAndBans(t *testing.T) {
	remembering(t, func(g denyRig) {
		r := ask("a", 1, stint.PerHour(1))
		applies := r // it adds no strike, so its denials are kept, but not for those that do
		applies.Bans, r.Bans = &stint.BanPolicy{}, banAfter(5, time.Minute)
		g.want(r, true, fromStore)
		for i := range 5 {
			if i < 4 {
				g.want(applies, false, i == 0)
			}
			if d := g.want(r, false, fromStore); d.Banned != (i == 4) {
				g.Fatalf("banned is %v by denial %d", d.Banned, i+1)
			}
		}
		if d := g.want(r, false, fromMemory); !d.Banned || d.Key() != "a" {
			g.Fatalf("banned is %v, key %q", d.Banned, d.Key())
		}
		g.s.drop("", false)
		for _, from := range []bool{fromStore, fromMemory} {
			if d := g.want(applies, false, from); !d.Banned || d.RetryAfter != time.Minute {
				g.Errorf("banned is %v, retry-after %v", d.Banned, d.RetryAfter)
			}
		}
		g.want(ask("a", 1, stint.PerHour(2)), true, fromStore) // it does not look for bans
		mustCommand(g, g.s, stint.Command{Kind: stint.CommandUnban, Subject: "a"})
		if d := g.want(r, false, fromStore); d.Banned {
			g.Error("banned after an unban")
		}

		// No denial counts where every subject is shared, so each is kept.
		shared, own := ask("b", 1, stint.PerHour(1)), ask("b", 1, stint.PerHour(1))
		shared.Claims[0].Shared, shared.Bans, own.Bans = true, banAfter(2, time.Minute), &stint.BanPolicy{}
		g.full(shared)
		for range 5 {
			if d := g.want(shared, false, fromMemory); d.Banned {
				g.Fatal("a shared subject was banned")
			}
		}
		mustCommand(g, g.s, stint.Command{Kind: stint.CommandBan, Subject: "b", For: time.Minute})
		for _, from := range []bool{fromStore, fromMemory} {
			if !g.want(own, false, from).Banned || g.want(shared, false, from).Banned {
				g.Error("a ban concerns those who are shared, or not those who are not")
			}
		}
	})
	remembering(t, func(g denyRig) { // the denial that leads to a ban may last longer than the ban
		r := ask("a", 2, stint.PerHour(1))
		r.Bans = banAfter(1, 10*time.Millisecond)
		if d := g.want(r, false, fromStore); !d.Banned || d.RetryAfter != stint.Never {
			g.Fatalf("banned is %v, retry-after %v", d.Banned, d.RetryAfter)
		}
		time.Sleep(10*time.Millisecond - 1)
		g.want(r, false, fromMemory)
		time.Sleep(time.Microsecond)
		g.want(r, false, fromStore) // strikes count again
		r.Claims[0].Limits = []stint.Limit{stint.PerHour(100)}
		if d := g.want(r, false, fromStore); d.RetryAfter != time.Hour {
			g.Errorf("retry-after is %v, want that of the second ban", d.RetryAfter)
		}
	})
}

// Everything that may make room drops the subject's denials, however it ended; and so does what
// another process announces. What makes none drops nothing.
func TestDenialsAreDropped(t *testing.T) {
	amend := func(a stint.Amendment) func(denyRig, stint.Charge) {
		return func(g denyRig, c stint.Charge) { _, _ = g.s.Amend(g.Context(), c, a) }
	}
	command := func(k stint.CommandKind) func(denyRig, stint.Charge) {
		return func(g denyRig, c stint.Charge) {
			claim := c.Claims()[0]
			_ = g.s.Command(g.Context(), stint.Command{Kind: k, Subject: claim.Subject, Scope: claim.Scope,
				Limits: claim.Limits, For: time.Hour, Units: 1})
		}
	}
	type row struct {
		act            func(denyRig, stint.Charge)
		allowed, asked bool
	}
	each(t, map[string]row{
		"refund":      {amend(settleTo(0)), true, fromStore},
		"settle down": {amend(settleTo(1)), true, fromStore},
		"settle up":   {amend(settleTo(3)), false, fromStore},
		"refund that seems to fail": {func(g denyRig, c stint.Charge) {
			_, _ = g.store.Store.Amend(g.Context(), c, settleTo(0))
			g.store.fail(storeError(stint.KindTimeout), opAmend)
			amend(settleTo(0))(g, c)
		}, true, fromStore},
		"release":   {amend(release), false, fromStore},
		"heartbeat": {amend(extend), false, fromMemory},
		"reset":     {command(stint.CommandReset), true, fromStore},
		"give back": {command(stint.CommandGiveBack), true, fromStore},
		"ban":       {command(stint.CommandBan), false, fromStore},
		"unban":     {command(stint.CommandUnban), false, fromStore},
		"announced": {func(g denyRig, _ stint.Charge) { g.s.drop("a", false) }, false, fromStore},
		"all":       {func(g denyRig, _ stint.Charge) { g.s.drop("", false) }, false, fromStore},
		"a caller's mistake, without a subject": {func(g denyRig, _ stint.Charge) {
			_, _ = g.s.Amend(g.Context(), stint.Charge{}, settleTo(0))
			_ = g.s.Command(g.Context(), stint.Command{Kind: stint.CommandReset})
		}, false, fromMemory},
	}, remembers, func(t *testing.T, store *fake, s *Stack, test row) {
		g := denyRig{t, store, s}
		r, one := ask("a", 2, stint.PerHour(2)), ask("a", 1, stint.PerHour(2))
		for _, r := range []*stint.Request{&r, &one} {
			r.Claims[0].Scope, r.Bans = "s", &stint.BanPolicy{}
		}
		d := g.want(r, true, fromStore)
		g.want(one, false, fromStore)
		g.want(one, false, fromMemory)
		time.Sleep(time.Millisecond)
		test.act(g, d.Charge)
		g.want(one, test.allowed, test.asked)
	})
}

// A denial that was on its way while room was given back is outdated when it arrives. A refund of
// several subjects drops the denials of each.
func TestDropOvertakesADenial(t *testing.T) {
	for name, giveBack := range map[string]func(denyRig, stint.Charge){
		"refund": func(g denyRig, c stint.Charge) { mustAmend(g, g.s, c, settleTo(0)) },
		"elsewhere": func(g denyRig, c stint.Charge) {
			mustAmend(g, g.store.Store, c, settleTo(0))
			g.s.drop("b", false)
		},
		"of any subject": func(g denyRig, c stint.Charge) {
			mustAmend(g, g.store.Store, c, settleTo(0))
			g.s.drop("", false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			remembering(t, func(g denyRig) {
				d := g.want(and(ask("b", 1, stint.PerHour(1)), ask("c", 1, stint.PerHour(1))), true, fromStore)
				g.want(ask("c", 1, stint.PerHour(1)), false, fromStore)
				r := and(ask("a", 1, stint.PerHour(10)), ask("b", 1, stint.PerHour(1)))
				g.store.reply(func(*driver.Call) {
					g.store.reply(nil)
					giveBack(g, d.Charge)
				})
				g.want(r, false, fromStore)
				g.want(r, true, fromStore)
				g.want(ask("c", 1, stint.PerHour(1)), name != "elsewhere", name != "elsewhere")
			})
		})
	}
	remembering(t, func(g denyRig) { // so is one that was remembered while a command was on its way
		r := ask("a", 1, stint.PerHour(1))
		g.full(r)
		g.store.hook(func(string) {
			g.store.hook(nil)
			wantAdmitted(g, g.s, 2, r, 0)
		})
		mustCommand(g, g.s, resetOf(r.Claims[0]))
		g.want(r, true, fromStore)
	})
}

// A denial that is outdated because a key was deleted in the store itself, or because the store's
// clock stepped, is repeated for a second at most. F26
func TestDenialIsWrongForASecondAtMost(t *testing.T) {
	for _, change := range []func(denyRig, stint.Request){
		func(g denyRig, r stint.Request) { mustCommand(g, g.store.Store, resetOf(r.Claims[0])) },
		func(g denyRig, _ stint.Request) { g.store.ahead.Add(int64(48 * time.Hour)) },
		func(g denyRig, _ stint.Request) { g.store.ahead.Add(-int64(48 * time.Hour)) },
	} {
		remembering(t, func(g denyRig) {
			r := ask("a", 1, stint.PerDay(1))
			g.full(r)
			change(g, r)
			time.Sleep(time.Second - 1)
			g.want(r, false, fromMemory)
			time.Sleep(time.Nanosecond)
			truth := mustDecide(g, g.store, peek(r))
			g.want(r, truth.Allowed, fromStore)
		})
	}
}

// A denial is remembered only if it is announced when it ends: stores announce what is given back
// of a limit that is more than half used.
func TestDenialsOfLargeCosts(t *testing.T) {
	minute := stint.PerMinute(9)
	for _, test := range []struct {
		used, cost int64
		limits     []stint.Limit
		from       bool
	}{
		{9, 1, []stint.Limit{minute}, fromMemory},
		{5, 5, []stint.Limit{minute}, fromMemory},
		{4, 6, []stint.Limit{minute}, fromStore},
		{4, 10, []stint.Limit{minute}, fromMemory}, // which never has room
		{1, 1, []stint.Limit{stint.PerMinute(1)}, fromMemory},
		{4, 6, []stint.Limit{minute, stint.PerHour(9)}, fromStore},
		{9, 6, []stint.Limit{minute, stint.PerHour(14)}, fromMemory}, // because of the second one
	} {
		remembering(t, func(g denyRig) {
			g.want(ask("a", test.used, test.limits...), true, fromStore)
			r := ask("a", test.cost, test.limits...)
			g.want(r, false, fromStore)
			g.want(r, false, test.from)
		})
	}
}

// Whatever a denial depends on is part of the question: any difference asks the store. F25
func TestDenialsAreToldApart(t *testing.T) {
	base := func() stint.Request {
		r := ask("a", 3, stint.PerHour(0), stint.Limit{Max: 100, Window: time.Minute, Burst: 200, Name: "x"})
		r.Claims[0].Scope = "s"
		return and(r, ask("b", 2, stint.PerDay(1000)))
	}
	type C = []stint.Claim
	type L = []stint.Limit
	type R = *stint.Request
	each(t, map[string]func(C, L, R){
		"subject":       func(c C, _ L, _ R) { c[0].Subject = "c" },
		"scope":         func(c C, _ L, _ R) { c[0].Scope = "" },
		"another scope": func(c C, _ L, _ R) { c[0].Scope = "t" },
		"cost":          func(c C, _ L, _ R) { c[0].Cost = 4 },
		"max":           func(_ C, l L, _ R) { l[1].Max, l[1].Burst = 50, 0 },
		"burst":         func(_ C, l L, _ R) { l[1].Burst = 300 },
		"window":        func(_ C, l L, _ R) { l[1].Window = 2 * time.Minute },
		"algorithm":     func(_ C, l L, _ R) { l[1].Algorithm = stint.AlgorithmBucket },
		"name":          func(_ C, l L, _ R) { l[1].Name = "y" },
		"no name":       func(_ C, l L, _ R) { l[1].Name = "" },
		"lease":         func(_ C, l L, _ R) { l[0].Leased = true },
		"order":         func(_ C, l L, _ R) { l[0], l[1] = l[1], l[0] },
		"fewer limits":  func(c C, l L, _ R) { c[0].Limits = l[:1] },
		"more limits":   func(c C, l L, _ R) { c[0].Limits = append(l, stint.PerDay(1000)) },
		"fewer claims":  func(c C, _ L, r R) { r.Claims = c[:1] },
		"more claims":   func(_ C, _ L, r R) { *r = and(*r, ask("d", 1, stint.PerDay(1))) },
		"another claim": func(c C, _ L, _ R) { c[1].Subject = "c" },
		"its cost":      func(c C, _ L, _ R) { c[1].Cost = 3 },
		"its limit":     func(c C, _ L, _ R) { c[1].Limits[0].Max++ },
		"costs swapped": func(c C, _ L, _ R) { c[0].Cost, c[1].Cost = 2, 3 },
		"bans":          func(_ C, _ L, r R) { r.Bans = &stint.BanPolicy{} },
		"shared":        func(c C, _ L, _ R) { c[0].Shared = true },
		"other shared":  func(c C, _ L, _ R) { c[1].Shared = true },
	}, remembers, func(t *testing.T, store *fake, s *Stack, change func(C, L, R)) {
		g := denyRig{t, store, s}
		changed := base()
		change(changed.Claims, changed.Claims[0].Limits, &changed)
		g.want(base(), false, fromStore)
		g.want(changed, false, fromStore)
		g.want(changed, false, fromMemory)
		g.want(base(), false, fromMemory)
	})
}

// TestDenialFromMemoryIsTheCallers checks that a denial from memory tells of all its limits, and that
// callers may do as they like with it.
func TestDenialFromMemoryIsTheCallers(t *testing.T) {
	remembering(t, func(g denyRig) {
		request := func() stint.Request { // in memory of its own
			r := and(ask("user", 1, stint.PerHour(10), stint.PerDay(20)), ask("all", 1, stint.PerHour(1), stint.PerDay(5)))
			r.Claims[1].Scope = "x"
			return r
		}
		g.want(request(), true, fromStore)
		first := g.want(request(), false, fromStore)
		first.Usages()[2].Used = 99
		for range 2 {
			r := request()
			d := g.want(r, false, fromMemory)
			if d.Key() != "all:x" || d.Denier != 2 || *d.Decisive().Limit != stint.PerHour(1) ||
				len(d.States()) != 4 || d.States()[2].Used != 1 {
				g.Errorf("key %q, denier %d, limit %s, states %+v", d.Key(), d.Denier, *d.Decisive().Limit, d.States())
			}
			if !d.Charge.IsZero() || !reflect.DeepEqual(d.Charge.Claims(), r.Claims) {
				g.Errorf("the charge is not that of its request: %+v", d.Charge)
			}
			d.Usages()[2].Used = 98
		}
	})
}

// TestDenialsHoldLittle checks that a denial takes the place of an older one of the same key, and
// keeps nothing of its request alive. The table is as large as it should be.
func TestDenialsHoldLittle(t *testing.T) {
	c := newDenyCache(Config{}.withDefaults())
	const keys = 50
	var requests []weak.Pointer[[2]stint.Limit]
	for i := range 2 * keys {
		limits := &[2]stint.Limit{stint.PerDay(1), stint.PerHour(1)}
		requests = append(requests, weak.Make(limits))
		r := ask(fmt.Sprint(i%keys), 1, limits[:]...)
		d := deniedFor(&r, i)
		c.remember(c.identify(&r), &r, &d, time.Now())
	}
	runtime.GC()
	held, alive := 0, 0
	for i := range c.sets {
		for k := range c.sets[i] {
			if c.sets[i][k].denial.Load() != nil {
				held++
			}
		}
	}
	for _, r := range requests[:len(requests)-1] { // the last one may still be on the stack
		if r.Value() != nil {
			alive++
		}
	}
	if held != keys || alive != 0 {
		t.Errorf("%d denials of %d keys are held, and %d requests", held, keys, alive)
	}
	for entries, want := range map[int]int{0: 1 << 16, 1: 4, 5: 8, 64: 64, 65: 128} {
		c := newDenyCache(Config{Denials: entries}.withDefaults())
		if room := len(c.sets) * len(denialSet{}); room != want {
			t.Errorf("Denials %d: room for %d, want %d", entries, room, want)
		}
	}
}

// deniedFor is a denial of a request, with n used and a retry-after of n seconds more than an hour.
func deniedFor(r *stint.Request, n int) stint.Decision {
	d := stint.Decision{RetryAfter: time.Hour + time.Duration(n)*time.Second, Charge: contract.ChargeOf(r)}
	for i := range d.MakeUsages(contract.CountLimits(r.Claims)) {
		d.Usages()[i] = stint.Usage{Used: int64(n), RetryAfter: d.RetryAfter, ResetAfter: d.RetryAfter}
	}
	return d
}
