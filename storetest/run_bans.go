package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

func policy(after int) *stint.BanPolicy {
	return &stint.BanPolicy{After: after, Within: 10 * s,
		Durations: []time.Duration{time.Minute, 5 * time.Minute, time.Hour}, Forgive: 2 * time.Hour}
}

// strike makes a request that is denied because its cost exceeds its limit, under the ban policy p.
func (k *tester) strike(p *stint.BanPolicy) stint.Decision {
	k.Helper()
	r := k.under(stint.Per(1, ms)).request(2)
	r.Bans = p
	d := k.decide(r)
	k.wantAllowed(d, false)
	return d
}

var bans = []check{
	everyStore("a command that is not valid is refused", limits{stint.PerHour(10)}, func(k *tester) {
		k.mustTake(4)
		const giveBack = stint.CommandGiveBack
		for name, c := range map[string]stint.Command{
			"no kind":                {Subject: k.subject, Limits: k.limits, For: time.Hour},
			"an unknown kind":        {Kind: giveBack + 1, Subject: k.subject},
			"no limits to reset":     {Kind: stint.CommandReset, Subject: k.subject},
			"no subject":             {Kind: stint.CommandUnban},
			"a ban without a length": {Kind: stint.CommandBan, Subject: k.subject},
			"a ban into the past":    {Kind: stint.CommandBan, Subject: k.subject, For: -time.Hour},
			"a ban too long":         {Kind: stint.CommandBan, Subject: k.subject, For: stint.MaxWindow + time.Second},
			"no units":               {Kind: giveBack, Subject: k.subject, Limits: k.limits},
			"negative units":         {Kind: giveBack, Subject: k.subject, Limits: k.limits, Units: -1},
			"too many units":         {Kind: giveBack, Subject: k.subject, Limits: k.limits, Units: stint.MaxUnits + 1},
			"units of no subject":    {Kind: giveBack, Limits: k.limits, Units: 1},
			"units of no limits":     {Kind: giveBack, Subject: k.subject, Units: 1},
			"a limit twice":          {Kind: giveBack, Subject: k.subject, Limits: limits{stint.PerHour(10), stint.PerHour(20)}, Units: 1},
			"an invalid limit":       {Kind: giveBack, Subject: k.subject, Limits: limits{{Max: -1}}, Units: 1},
		} {
			k.wantInvalid(name, k.Store.Command(k.Context(), c))
		}
		if !k.NeverOver {
			k.wantUsed(k.peek(1), 4)
		}
	}),
	exact("denials lead to a ban", limits{stint.PerHour(10)}, func(k *tester) {
		k.wantBanned(k.strike(policy(3)), false)
		k.wantBanned(k.strike(policy(3)), false)
		k.mustTake(1)
		k.wantBanned(k.strike(policy(3)), true)
		d := k.mustDeny(1)
		k.wantBanned(d, true)
		k.wantUsed(d, 1)
		if d.Key() != k.subject || d.RetryAfter <= 0 || d.RetryAfter > time.Minute {
			k.Errorf("key %q, retry-after %v", d.Key(), d.RetryAfter)
		}
	}),
	exact("a ban applies in every scope, to peeks and reservations, too", nil, func(k *tester) {
		k.ban(time.Hour)
		r := k.under(stint.PerHour(10)).request(0)
		for _, r.Claims[0].Scope = range []string{"", "a", "b"} {
			for _, r.Mode = range []stint.Mode{stint.ModeTake, stint.ModePeek, stint.ModeReserve} {
				d := k.decide(r)
				k.wantAllowed(d, false)
				k.wantBanned(d, true)
			}
		}
		k.unban()
		k.mustDecide(r)
	}),
	clocked("bans grow, and the last length repeats", nil, func(k *tester) {
		for _, want := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour, time.Hour} {
			r := k.under(stint.PerSecond(1)).request(1)
			r.Bans = policy(1)
			k.decide(r)
			d := k.decide(r)
			k.wantBanned(d, true)
			k.wantRetry(d, want)
			d = k.after(want - us).decide(r)
			k.wantBanned(d, true) // a denied request does not extend the ban
			k.wantRetry(d, us)
			k.wantAllowed(k.after(us).decide(r), true)
			k.Clock.Advance(s)
		}
	}),
	exact("only a take that costs is a strike", nil, func(k *tester) {
		r := k.under(stint.Limit{Window: time.Hour}).request(1)
		r.Bans = policy(1)
		k.wantBanned(k.look(r), false)
		r.Mode = stint.ModeReserve
		k.wantBanned(k.decide(r), false)
		r.Mode, r.Claims[0].Cost = stint.ModeTake, 0
		k.wantBanned(k.decide(r), false)
		k.under(stint.PerHour(1)).mustTake(1)
		r.Claims[0].Cost = 1
		k.wantBanned(k.decide(r), true)
	}),
	clocked("unban forgets bans and strikes", nil, func(k *tester) {
		k.strike(policy(1))
		k.unban()
		k.wantBanned(k.strike(policy(2)), false)
		k.unban()
		k.wantBanned(k.strike(policy(2)), false)
		k.wantBanned(k.strike(policy(2)), true)
		k.wantRetry(k.under(stint.PerHour(1)).take(1), time.Minute) // the length of a first ban
	}),
	clocked("a ban by hand lengthens one in force, never shortens it, and ends",
		limits{stint.PerHour(10)}, func(k *tester) {
			k.ban(time.Minute)
			k.wantRetry(k.take(1), time.Minute)
			k.ban(time.Hour)
			k.wantRetry(k.take(1), time.Hour)
			k.Clock.Advance(time.Minute)
			k.ban(time.Minute)
			k.wantRetry(k.take(1), 59*time.Minute)
			k.Clock.Advance(58 * time.Minute)
			k.ban(time.Minute) // ends when the current ban ends
			k.wantRetry(k.take(1), time.Minute)
			k.Clock.Advance(time.Minute - us)
			k.ban(ms)
			k.wantRetry(k.take(1), ms)
			k.after(ms).mustTake(1)
		}),
	exact("a shared subject is not banned", limits{stint.PerHour(10)}, func(k *tester) {
		k.ban(time.Hour)
		shared, own := k.request(1), k.request(1)
		shared.Claims[0].Shared = true
		for range 2 { // Shared applies only to the request in which it is set
			k.mustDecide(shared)
			k.wantBanned(k.decide(own), true)
		}
		k.mustDecide(and(k.other().request(1), shared))
		ceiling := k.other().request(1)
		ceiling.Claims[0].Shared = true
		for _, r := range []stint.Request{and(k.other().request(1), own), and(ceiling, own)} {
			d := k.decide(r)
			k.wantBanned(d, true)
			k.wantKey(d, k.subject)
		}
	}),
	exact("a shared subject gets no strikes", limits{stint.PerHour(10)}, func(k *tester) {
		ceiling := k.other()
		r := and(k.request(1), ceiling.under(stint.Limit{Window: time.Hour}).request(1))
		r.Claims[1].Shared = true
		r.Bans = policy(2)
		for range 5 {
			d := k.decide(r)
			k.wantAllowed(d, false)
			k.wantBanned(d, false)
			k.wantKey(d, ceiling.subject)
		}
		k.mustTake(1)
		ceiling.mustTake(1)
		// Denials by the caller's own limits count as usual.
		r.Claims[0].Cost = 11
		k.wantBanned(k.decide(r), false)
		k.wantBanned(k.decide(r), true)
	}),
	everyStore("a ban is applied", nil, func(k *tester) {
		k.ban(time.Hour)
		k.under(stint.PerHour(10)).mustDeny(1)
	}),
}
