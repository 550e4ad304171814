package resilience

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

// Everything that may make room drops the subject's denials, however it ended.
func TestDenyCacheDrops(t *testing.T) {
	settle := func(cost int64) func(*denyRig, stint.Charge) {
		return func(g *denyRig, c stint.Charge) {
			g.cache.Amend(context.Background(), c, stint.Amendment{Cost: cost})
		}
	}
	command := func(k stint.CommandKind) func(*denyRig, stint.Charge) {
		return func(g *denyRig, c stint.Charge) {
			g.cache.Command(context.Background(), stint.Command{
				Kind: k, Subject: c.Claims()[0].Subject, Scope: c.Claims()[0].Scope, Limits: c.Claims()[0].Limits,
				For: time.Hour})
		}
	}
	for _, c := range []struct {
		name    string
		act     func(*denyRig, stint.Charge)
		allowed bool
	}{
		{"refund", settle(0), true},
		{"settle down", settle(1), true},
		{"settle up", settle(3), false},
		{"refund that seems to fail", func(g *denyRig, c stint.Charge) {
			g.amend = func() (stint.Amended, error) { return stint.Amended{}, context.DeadlineExceeded }
			settle(0)(g, c)
		}, true},
		{"release", func(g *denyRig, c stint.Charge) {
			g.cache.Amend(context.Background(), c, stint.Amendment{Kind: stint.AmendRelease})
		}, false},
		{"reset", command(stint.CommandReset), true},
		{"ban", command(stint.CommandBan), false},
		{"unban", command(stint.CommandUnban), false},
		{"told of", func(g *denyRig, c stint.Charge) { g.cache.drop(c.Claims()[0].Subject) }, false},
		{"all", func(g *denyRig, c stint.Charge) { g.cache.drop("") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, r := newDenyRig(t, Config{}), ask("a", 2, stint.PerHour(2))
			r.Claims[0].Scope, r.Bans = "s", &stint.BanPolicy{}
			one := r
			one.Claims = slices.Clone(one.Claims)
			one.Claims[0].Cost = 1
			d := g.want(r, true, fromStore)
			g.want(one, false, fromStore)
			g.want(one, false, fromMemory)
			c.act(g, d.Charge)
			g.want(one, c.allowed, fromStore)
		})
	}
}

// What concerns others, or makes no room, drops nothing.
func TestDenyCacheDropsNoMore(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(1))
	d := g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	g.cache.Amend(t.Context(), d.Charge, stint.Amendment{Kind: stint.AmendExtend})
	g.want(r, false, fromMemory)
	// A mistake of a caller's, with no subject at all, is not everybody's.
	g.cache.Amend(t.Context(), stint.Charge{}, stint.Amendment{})
	g.cache.Command(t.Context(), stint.Command{Kind: stint.CommandReset})
	g.want(r, false, fromMemory)
}

// A denial that was on its way while room was given back is outdated when it arrives.
func TestDenyCacheDropOvertakesADenial(t *testing.T) {
	for name, giveBack := range map[string]func(*denyRig, stint.Decision){
		"refund": func(g *denyRig, d stint.Decision) {
			g.cache.Amend(context.Background(), d.Charge, stint.Amendment{})
		},
		"elsewhere": func(g *denyRig, d stint.Decision) {
			g.store.Amend(context.Background(), d.Charge, stint.Amendment{})
			g.cache.drop("b")
		},
		"anyone's": func(g *denyRig, d stint.Decision) {
			g.store.Amend(context.Background(), d.Charge, stint.Amendment{})
			g.cache.drop("")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newDenyRig(t, Config{})
			d := g.want(ask("b", 1, stint.PerHour(1)), true, fromStore)
			r := ask("a", 1, stint.PerHour(10))
			r.Claims = append(
				r.Claims[:1:1],
				[]stint.Claim{{Subject: "b", Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}}...)
			g.after = func() {
				g.after = nil
				giveBack(g, d)
			}
			g.want(r, false, fromStore)
			g.want(r, true, fromStore)
		})
	}
}

// A refund of several subjects drops the denials of each.
func TestDenyCacheDropsEverySubject(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(1))
	r.Claims = append(r.Claims[:1:1], []stint.Claim{ask("b", 1, stint.PerHour(1)).Claims[0]}...)
	d := g.want(r, true, fromStore)
	for _, subject := range []string{"a", "b"} {
		g.want(ask(subject, 1, stint.PerHour(1)), false, fromStore)
	}
	if _, err := g.cache.Amend(t.Context(), d.Charge, stint.Amendment{}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"a", "b"} {
		g.want(ask(subject, 1, stint.PerHour(1)), true, fromStore)
	}
}

// F26: what somebody deletes behind our back heals within a second.
func TestDenyCacheDeletedBehindOurBack(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerDay(1))
	g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	if err := g.store.Command(t.Context(),
		stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: r.Claims[0].Limits}); err != nil {
		t.Fatal(err)
	}
	g.clock.Advance(time.Second - 1)
	g.want(r, false, fromMemory)
	g.clock.Advance(1)
	g.want(r, true, fromStore)
}

// F26: when the store's clock steps, nobody is denied wrongly for more than a second either.
func TestDenyCacheStoreClockSteps(t *testing.T) {
	for _, step := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerDay(1))
		var passed time.Duration // the cache's own clock knows nothing of the step
		g.cache.clock = func() time.Duration { return passed }
		g.want(r, true, fromStore)
		g.want(r, false, fromStore)
		g.clock.Advance(step)
		passed += time.Second
		truth, err := g.store.Take(
			t.Context(),
			stint.Request{Claims: []stint.Claim{r.Claims[0]}, Mode: stint.ModePeek},
		)
		if err != nil {
			t.Fatal(err)
		}
		g.want(r, truth.Allowed, fromStore)
	}
}

// A subject that is too long to be announced as it is is known by its hash.
func TestDenyCacheDropsLongSubjects(t *testing.T) {
	g := newDenyRig(t, Config{})
	long := "user:" + strings.Repeat("名", 15)
	requests := []stint.Request{ask(long, 1, stint.PerHour(1)), ask(long+"2", 1, stint.PerHour(1)),
		ask("a", 1, stint.PerHour(1))}
	for _, r := range requests {
		g.want(r, true, fromStore)
		g.want(r, false, fromStore)
		g.want(r, false, fromMemory)
	}
	g.cache.drop(string(keypart.Append(nil, long, true)))
	g.want(requests[0], false, fromStore)
	for _, r := range requests {
		g.want(r, false, fromMemory)
	}
}

// A denial is remembered only if it is announced when it ends: stores announce what is given back
// of a limit that is more than half used.
func TestDenyCacheLeavesLargeCosts(t *testing.T) {
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
		g := newDenyRig(t, Config{})
		g.want(ask("a", test.used, test.limits...), true, fromStore)
		r := ask("a", test.cost, test.limits...)
		g.want(r, false, fromStore)
		g.want(r, false, test.from)
	}
}
