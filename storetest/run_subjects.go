package storetest

import (
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
)

// hostile are subjects and scopes that carelessly built keys would confuse: fault F11, see
// docs/faults.md.
var hostile = [][2]string{
	{"a", ""}, {"a:", ""}, {"a", ":"}, {":a", ""}, {"a:b", "c"}, {"a", "b:c"}, {"a:b:c", ""}, {"a:b", ":c"},
	{"{x}", ""}, {"x", ""}, {"{x", ""}, {"x}", ""}, {"}x{", ""}, {"{}", ""}, {"{", "x}"}, {"x", "{x}"},
	{"\r\n", ""}, {"\r", "\n"}, {"\n", ""}, {"a\r\nSET b 1\r\n", ""}, {"\x00", ""}, {"\x00\x00", ""}, {"a\x00", ""},
	{"a", "\x00"},
	{"\xff\xfe", ""}, {"\xff", "\xfe"}, {"\xc3\x28", ""}, {"é", ""}, {"e\u0301", ""}, {"%00", ""},
	{"%", ""}, {"%25", ""},
	{" ", ""}, {"a ", ""}, {"a", " "}, {"*", ""}, {"a*", ""}, {"sliding/1h", ""}, {"a", "sliding/1h"},
	{"a:sliding/1h", ""}, {"A", ""},
}

var subjects = []check{
	exact("no two subjects or scopes are confused", nil, func(k *tester) {
		l, salt := stint.PerHour(100), k.newSubject()
		var claims []stint.Claim
		for _, h := range hostile {
			claims = append(claims, stint.Claim{Subject: h[0] + salt, Scope: h[1]},
				stint.Claim{Subject: salt + h[0], Scope: h[1]})
		}
		for _, n := range []int{10_000, 10_001, stint.MaxSubject} {
			long := strings.Repeat("x", n-len(salt)-1)
			claims = append(claims, stint.Claim{Subject: salt + long + "a"}, stint.Claim{Subject: salt + long + "b"},
				stint.Claim{Subject: salt, Scope: long + "a"}, stint.Claim{Subject: salt, Scope: long + "b"})
		}
		for i, c := range claims {
			c.Limits, c.Cost = []stint.Limit{l}, int64(i%50+1)
			if d := k.decide(stint.Request{Claims: []stint.Claim{c}}); d.States()[0].Used != c.Cost {
				k.Errorf("subject %.40q, scope %.40q: used is %d, want %d", c.Subject, c.Scope,
					d.States()[0].Used, c.Cost)
			}
		}
		for i, c := range claims {
			c.Limits = []stint.Limit{l}
			d := k.decide(stint.Request{Claims: []stint.Claim{c}})
			k.wantUsed(d, int64(i%50+1))
			k.wantKey(d, c.Key())
		}
	}),
	exact("several subjects are charged all or none", nil, func(k *tester) {
		user, global, l := k.newSubject(), k.newSubject(), stint.PerHour(10)
		request := func(n, m int64) stint.Request {
			return stint.Request{
				Claims: []stint.Claim{
					{Subject: user, Limits: []stint.Limit{l}, Cost: n},
					{Subject: global, Scope: "all", Limits: []stint.Limit{l, stint.PerDay(5)}, Cost: m},
				},
			}
		}
		k.wantUsed(k.decide(request(2, 4)), 2, 4, 4)
		d := k.decide(request(2, 2))
		k.wantAllowed(d, false)
		k.wantKey(d, global+":all")
		used := func(subject, scope string, limits ...stint.Limit) int64 {
			d := k.decide(stint.Request{Claims: []stint.Claim{{Subject: subject, Scope: scope, Limits: limits}},
				Mode: stint.ModePeek})
			return d.States()[0].Used
		}
		testkit.Eventually(
			k.T,
			"what the first subject was charged is given back",
			func() bool { return used(user, "", l) == 2 },
		)
		if n := used(global, "all", l); n != 4 {
			k.Errorf("the second subject has used %d, want 4", n)
		}
		first := k.decide(request(20, 1))
		k.wantAllowed(first, false)
		k.wantRetry(first, stint.Never)
		k.wantKey(first, user)
	}),
	exact("several subjects are refunded together", nil, func(k *tester) {
		a, b, l := k.newSubject(), k.newSubject(), stint.PerHour(10)
		d := k.decide(and(k.as(a, l).request(3), k.as(b, l).request(5)))
		k.wantApplied(k.settle(d, 0), true)
		k.wantUsed(k.as(a, l).peek(1), 0)
		k.wantUsed(k.as(b, l).peek(1), 0)
		k.wantApplied(k.settle(d, 0), false)
	}),
	exact("one banned subject denies the request", nil, func(k *tester) {
		a, b, l := k.newSubject(), k.newSubject(), stint.PerHour(10)
		k.as(b).ban(3600 * s)
		for _, cost := range []int64{1, 11} { // whether or not the other subject has room
			d := k.decide(and(k.as(a, l).request(cost), k.as(b, l).request(1)))
			k.wantAllowed(d, false)
			k.wantBanned(d, true)
			k.wantKey(d, b)
			if d.BanLeft <= 0 || d.BanLeft > 3600*s {
				k.Errorf("the ban lasts for %v, want at most an hour", d.BanLeft)
			}
		}
		testkit.Eventually(k.T, "nothing is charged", func() bool {
			d := k.as(a, l).peek(1)
			return d.States()[0].Used == 0
		})
	}),
	exact("an id of a request that one subject denied is charged to all of them later", nil, func(k *tester) {
		a, b, all, l := k.newSubject(), k.newSubject(), k.newSubject(), stint.PerHour(10)
		request := func(most int64) stint.Request {
			r := and(k.as(a, l).withID("x"), k.as(b, l).request(2))
			r.Claims = append(r.Claims, stint.Claim{Subject: all, Limits: []stint.Limit{stint.PerHour(most)}, Cost: 1,
				Shared: true})
			return r
		}
		k.wantAllowed(k.decide(request(0)), false)
		used := func() int64 { d := k.as(b, l).peek(1); return d.States()[0].Used }
		testkit.Eventually(k.T, "nothing is charged", func() bool { return used() == 0 })
		d := k.decide(request(10))
		k.wantAllowed(d, true)
		k.wantRepeat(d, false)
		if n := used(); n != 2 {
			k.Errorf("the second subject has used %d, want 2", n)
		}
	}),
	exact("an id spares all subjects", nil, func(k *tester) {
		a, b, l := k.newSubject(), k.newSubject(), stint.PerHour(10)
		r := and(k.as(a, l).withID("x"), k.as(b, l).request(1))
		k.decide(r)
		d := k.after(moment).decide(r)
		k.wantAllowed(d, true)
		k.wantRepeat(d, true)
		k.wantUsed(k.as(a, l).peek(1), 1)
		k.wantUsed(k.as(b, l).peek(1), 1)
	}),
	clocked("several subjects are booked at one instant, or refused", nil, func(k *tester) {
		a, b := k.newSubject(), k.newSubject()
		r := stint.Request{
			Claims: []stint.Claim{
				k.as(a, stint.PerSecond(1)).request(1).Claims[0],
				k.as(b, stint.Per(1, 3*s)).request(1).Claims[0],
			},
			Mode: stint.ModeReserve,
		}
		if k.SplitSubjects {
			if d, err := k.Store.Take(k.Context(), r); err == nil {
				k.Errorf("not refused: %s", answer(d))
			}
			return
		}
		k.decide(r)
		k.wantRetry(k.decide(r), 3*s)
		k.wantRetry(k.as(a, stint.PerSecond(1)).take(1), 4*s+grace) // behind the waiting requests
		k.after(s).as(a, stint.PerSecond(1)).mustTake(1)
		k.Clock.Advance(s + us)
		// A unit charged now would still count when the booking at 3 s is due.
		k.wantRetry(k.as(a, stint.PerSecond(1)).take(1), 2*s+grace-us)
	}),
	everyStore("sixteen subjects never exceed any of their limits", nil, func(k *tester) {
		r := stint.Request{Claims: []stint.Claim{k.other().under(stint.PerHour(5)).request(1).Claims[0]}}
		for range stint.MaxClaims - 1 {
			r.Claims = append(r.Claims, k.other().under(stint.PerHour(7)).request(1).Claims[0])
		}
		admitted := 0
		for range 20 {
			if k.decide(r).Allowed {
				admitted++
			}
		}
		if admitted > 5 || !k.NeverOver && admitted != 5 {
			k.Errorf("admitted %d, want 5", admitted)
		}
	}),
}
