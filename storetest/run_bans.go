package storetest

import (
	"time"

	"github.com/stint-limiter/stint"
)

func policy(after int) *stint.BanPolicy {
	return &stint.BanPolicy{After: after, Within: 10 * s,
		Durations: []time.Duration{time.Minute, 5 * time.Minute, time.Hour}, Forgive: 2 * time.Hour}
}

// strike denies the subject something, under a ban policy.
func (k *tester) strike(subject string, p *stint.BanPolicy) stint.Decision {
	k.Helper()
	r := k.request(subject, 2, stint.Per(1, ms))
	r.Bans = p
	d := k.decide(r)
	k.wantAllowed(d, false)
	return d
}

func (k *tester) wantBanned(d stint.Decision, want bool) {
	k.Helper()
	if d.Banned != want {
		k.Fatalf("banned is %v, want %v: %s", d.Banned, want, answer(d))
	}
}

var bans = []check{
	{name: "denials lead to a ban", exact: true, test: func(k *tester) {
		subject, l := k.subject(), stint.PerHour(10)
		k.wantBanned(k.strike(subject, policy(3)), false)
		k.wantBanned(k.strike(subject, policy(3)), false)
		k.wantAllowed(k.take(subject, 1, l), true)
		k.wantBanned(k.strike(subject, policy(3)), true)
		d := k.take(subject, 1, l)
		k.wantAllowed(d, false)
		k.wantBanned(d, true)
		k.wantUsed(d, 1)
		if d.Key() != subject || d.RetryAfter <= 0 || d.RetryAfter > time.Minute {
			k.Errorf("key %q, retry-after %v", d.Key(), d.RetryAfter)
		}
	}},
	{name: "a ban holds in every scope, for looks and reservations too", exact: true, test: func(k *tester) {
		subject := k.subject()
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Hour})
		r := k.request(subject, 0, stint.PerHour(10))
		for _, r.Scope = range []string{"", "a", "b"} {
			for _, r.Mode = range []stint.Mode{stint.ModeTake, stint.ModePeek, stint.ModeReserve} {
				d := k.decide(r)
				k.wantAllowed(d, false)
				k.wantBanned(d, true)
			}
		}
		k.command(stint.Command{Kind: stint.CommandUnban, Subject: subject})
		k.wantAllowed(k.decide(r), true)
	}},
	{name: "bans grow, and the last length repeats", exact: true, clock: true, test: func(k *tester) {
		subject := k.subject()
		for _, want := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour, time.Hour} {
			r := k.request(subject, 1, stint.PerSecond(1))
			r.Bans = policy(1)
			k.decide(r)
			d := k.decide(r)
			k.wantBanned(d, true)
			k.wantRetry(d, want)
			k.Clock.Advance(want - us)
			d = k.decide(r)
			k.wantBanned(d, true) // and does not extend it
			k.wantRetry(d, us)
			k.Clock.Advance(us)
			k.wantAllowed(k.decide(r), true)
			k.Clock.Advance(s)
		}
	}},
	{name: "denials that are far apart do not ban", exact: true, clock: true, test: func(k *tester) {
		subject := k.subject()
		for range 5 {
			k.wantBanned(k.strike(subject, policy(2)), false)
			k.Clock.Advance(10 * s)
		}
		k.wantBanned(k.strike(subject, policy(2)), false)
		k.Clock.Advance(10*s - us)
		k.wantBanned(k.strike(subject, policy(2)), true)
	}},
	{name: "old bans are forgiven", exact: true, clock: true, test: func(k *tester) {
		for _, c := range []struct{ quiet, want time.Duration }{
			{2*time.Hour - us, 5 * time.Minute},
			{2 * time.Hour, time.Minute},
		} {
			subject := k.subject()
			k.strike(subject, policy(1))
			k.Clock.Advance(time.Minute + c.quiet)
			k.strike(subject, policy(1))
			k.wantRetry(k.take(subject, 1, stint.PerHour(10)), c.want)
		}
	}},
	{name: "a wait that is longer than the ban stands", exact: true, clock: true, test: func(k *tester) {
		subject := k.subject()
		k.wantRetry(k.strike(subject, policy(1)), stint.Never)
		r := k.request(k.subject(), 1, stint.PerDay(1))
		r.Bans = policy(1)
		k.decide(r)
		k.wantRetry(k.decide(r), 24*time.Hour)
	}},
	{name: "only a take that costs is a strike", exact: true, test: func(k *tester) {
		subject, r := k.subject(), stint.Request{}
		r.Claim = stint.Claim{Subject: subject, Limits: []stint.Limit{{Window: time.Hour}}, Cost: 1}
		r.Bans = policy(1)
		r.Mode = stint.ModePeek
		k.wantBanned(k.decide(r), false)
		r.Mode = stint.ModeReserve
		k.wantBanned(k.decide(r), false)
		r.Mode, r.Cost = stint.ModeTake, 0
		k.wantBanned(k.decide(r), false)
		k.wantAllowed(k.take(subject, 1, stint.PerHour(1)), true)
		r.Cost = 1
		k.wantBanned(k.decide(r), true)
	}},
	{name: "unban forgets bans and strikes", exact: true, clock: true, test: func(k *tester) {
		subject := k.subject()
		k.strike(subject, policy(1))
		k.command(stint.Command{Kind: stint.CommandUnban, Subject: subject})
		k.wantBanned(k.strike(subject, policy(2)), false)
		k.command(stint.Command{Kind: stint.CommandUnban, Subject: subject})
		k.wantBanned(k.strike(subject, policy(2)), false)
		k.wantBanned(k.strike(subject, policy(2)), true)
		k.wantRetry(k.take(subject, 1, stint.PerHour(1)), time.Minute) // the first length again
	}},
	{name: "a ban by hand lengthens one in force, never shortens it, and ends", exact: true, clock: true, test: func(k *tester) {
		subject, l := k.subject(), stint.PerHour(10)
		ban := func(d time.Duration) { k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: d}) }
		ban(time.Minute)
		k.wantRetry(k.take(subject, 1, l), time.Minute)
		ban(time.Hour)
		k.wantRetry(k.take(subject, 1, l), time.Hour)
		k.Clock.Advance(time.Minute)
		ban(time.Minute)
		k.wantRetry(k.take(subject, 1, l), 59*time.Minute)
		k.Clock.Advance(58 * time.Minute)
		ban(time.Minute) // to the same end
		k.wantRetry(k.take(subject, 1, l), time.Minute)
		k.Clock.Advance(time.Minute - us)
		ban(ms)
		k.wantRetry(k.take(subject, 1, l), ms)
		k.Clock.Advance(ms)
		k.wantAllowed(k.take(subject, 1, l), true)
	}},
	{name: "a ban by hand does not shorten one for denials", exact: true, clock: true, test: func(k *tester) {
		subject, l := k.subject(), stint.PerHour(10)
		k.strike(subject, policy(1))
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: s})
		k.wantRetry(k.take(subject, 1, l), time.Minute)
		k.Clock.Advance(time.Minute)
		k.strike(subject, policy(1))
		k.wantRetry(k.take(subject, 1, l), 5*time.Minute) // the level is kept
	}},
	{name: "after an unban a ban may be shorter", exact: true, clock: true, test: func(k *tester) {
		subject, l := k.subject(), stint.PerHour(10)
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Hour})
		k.command(stint.Command{Kind: stint.CommandUnban, Subject: subject})
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Minute})
		k.wantRetry(k.take(subject, 1, l), time.Minute)
		k.Clock.Advance(time.Minute)
		k.wantAllowed(k.take(subject, 1, l), true)
	}},
	{name: "a shared subject is not banned", exact: true, test: func(k *tester) {
		subject, l := k.subject(), stint.PerHour(10)
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Hour})
		shared, own := k.request(subject, 1, l), k.request(subject, 1, l)
		shared.Shared = true
		for range 2 { // each applies as given, whichever came before
			k.wantAllowed(k.decide(shared), true)
			k.wantBanned(k.decide(own), true)
		}
		caller := k.request(k.subject(), 1, l)
		caller.And = []stint.Claim{shared.Claim}
		k.wantAllowed(k.decide(caller), true)
		caller.And = []stint.Claim{own.Claim}
		k.wantBanned(k.decide(caller), true)
	}},
	{name: "a caller's ban is found beside a shared subject", exact: true, test: func(k *tester) {
		caller, ceiling, l := k.subject(), k.subject(), stint.PerHour(10)
		k.command(stint.Command{Kind: stint.CommandBan, Subject: caller, For: time.Hour})
		r := k.request(ceiling, 1, l)
		r.Shared = true
		r.And = []stint.Claim{k.request(caller, 1, l).Claim}
		d := k.decide(r)
		k.wantBanned(d, true)
		if d.Key() != caller {
			k.Errorf("key is %q, want %q", d.Key(), caller)
		}
	}},
	{name: "no strikes are made of a shared subject", exact: true, test: func(k *tester) {
		caller, ceiling, l := k.subject(), k.subject(), stint.PerHour(10)
		r := k.request(caller, 1, l)
		r.And = []stint.Claim{{Subject: ceiling, Limits: []stint.Limit{{Window: time.Hour}}, Cost: 1, Shared: true}}
		r.Bans = policy(2)
		for range 5 {
			d := k.decide(r)
			k.wantAllowed(d, false)
			k.wantBanned(d, false)
			if d.Key() != ceiling {
				k.Errorf("key is %q, want %q", d.Key(), ceiling)
			}
		}
		k.wantAllowed(k.take(caller, 1, l), true)
		k.wantAllowed(k.take(ceiling, 1, l), true)
		// What the caller's own limits deny counts as ever.
		r.Cost = 11
		k.wantBanned(k.decide(r), false)
		k.wantBanned(k.decide(r), true)
	}},
	{name: "without a policy bans are not looked for", exact: true, test: func(k *tester) {
		subject, l := k.subject(), stint.PerHour(1)
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Hour})
		r := k.request(subject, 1, l)
		r.Bans = nil
		k.wantAllowed(k.decide(r), true)
		k.wantBanned(k.take(subject, 1, l), true)
	}},
	{name: "a ban obeyed", test: func(k *tester) {
		subject := k.subject()
		k.command(stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Hour})
		k.wantAllowed(k.take(subject, 1, stint.PerHour(10)), false)
	}},
}
