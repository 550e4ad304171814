package storetest

import (
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/testkit"
)

// hostile contains subjects and scopes that a store confuses if it builds its keys carelessly. See
// fault F11 in docs/faults.md.
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
			c.Limits, c.Cost = limits{l}, int64(i%50+1)
			if d := k.decide(stint.Request{Claims: []stint.Claim{c}}); d.States()[0].Used != c.Cost {
				k.Errorf("subject %.40q, scope %.40q: used is %d, want %d", c.Subject, c.Scope,
					d.States()[0].Used, c.Cost)
			}
		}
		for i, c := range claims {
			c.Limits = limits{l}
			d := k.decide(stint.Request{Claims: []stint.Claim{c}})
			k.wantUsed(d, int64(i%50+1))
			k.wantKey(d, c.Key())
		}
	}),
	exact("several subjects are charged all or none", nil, func(k *tester) {
		user, global := k.other(stint.PerHour(10)), k.other(stint.PerHour(10), stint.PerDay(5))
		request := func(n, m int64) stint.Request {
			r := and(user.request(n), global.request(m))
			r.Claims[1].Scope = "all"
			return r
		}
		k.wantUsed(k.decide(request(2, 4)), 2, 4, 4)
		d := k.decide(request(2, 2))
		k.wantAllowed(d, false)
		k.wantKey(d, global.subject+":all")
		testkit.Eventually(k.T, "what the first subject was charged is given back", func() bool {
			return user.used() == 2
		})
		k.wantUsed(k.look(request(0, 0)), 2, 4, 4)
		first := k.decide(request(20, 1))
		k.wantAllowed(first, false)
		k.wantRetry(first, stint.Never)
		k.wantKey(first, user.subject)
	}),
	exact("one banned subject denies the request", limits{stint.PerHour(10)}, func(k *tester) {
		a, b := k.other(), k.other()
		b.ban(3600 * s)
		for _, cost := range []int64{1, 11} { // whether or not the other subject has room
			d := k.decide(and(a.request(cost), b.request(1)))
			k.wantAllowed(d, false)
			k.wantBanned(d, true)
			k.wantKey(d, b.subject)
			if d.BanLeft <= 0 || d.BanLeft > 3600*s {
				k.Errorf("the ban lasts for %v, want at most an hour", d.BanLeft)
			}
		}
		testkit.Eventually(k.T, "nothing is charged", func() bool { return a.used() == 0 })
	}),
	exact("an id of a request that one subject denied is charged to all of them later", limits{stint.PerHour(10)},
		func(k *tester) {
			a, b, all := k.other(), k.other(), k.other()
			request := func(most int64) stint.Request {
				r := and(a.withID("x"), b.request(2), all.under(stint.PerHour(most)).request(1))
				r.Claims[2].Shared = true
				return r
			}
			k.wantAllowed(k.decide(request(0)), false)
			testkit.Eventually(k.T, "nothing is charged", func() bool { return b.used() == 0 })
			k.wantRepeat(k.mustDecide(request(10)), false)
			k.wantUsed(b.peek(1), 2)
		}),
	clocked("several subjects are booked at one instant, or refused", nil, func(k *tester) {
		a := k.other(stint.PerSecond(1))
		r := and(a.request(1), k.other(stint.Per(1, 3*s)).request(1))
		r.Mode = stint.ModeReserve
		if k.SplitSubjects {
			if d, err := k.Store.Take(k.Context(), r); err == nil {
				k.Errorf("not refused: %s", answer(d))
			}
			return
		}
		k.decide(r)
		k.wantRetry(k.decide(r), 3*s)
		k.wantRetry(a.take(1), 4*s+grace) // behind the waiting requests
		a.after(s).mustTake(1)
		k.Clock.Advance(s + us)
		// A unit charged now would still count when the booking at 3 s is due.
		k.wantRetry(a.take(1), 2*s+grace-us)
	}),
	everyStore("sixteen subjects never exceed any of their limits", nil, func(k *tester) {
		r := k.other(stint.PerHour(5)).request(1)
		for range stint.MaxClaims - 1 {
			r = and(r, k.other(stint.PerHour(7)).request(1))
		}
		admitted := 0
		for range 20 {
			admitted += oneIf(k.decide(r).Allowed)
		}
		k.wantAdmitted(admitted, 5)
	}),
}
