package resilience

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

func banAfter(after int, first time.Duration) *stint.BanPolicy {
	return &stint.BanPolicy{After: after, Within: time.Hour, Durations: []time.Duration{first, time.Hour},
		Forgive: time.Hour}
}

// Every denial that counts reaches the store; once banned, none needs to.
func TestDenyCacheBans(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(1))
	obeys := r // it adds no strike, so its denials are kept, but not for those that do
	obeys.Bans = &stint.BanPolicy{}
	r.Bans = banAfter(5, time.Minute)
	g.want(r, true, fromStore)
	for range 4 {
		g.want(obeys, false, g.cache.held() == 0)
		if d := g.want(r, false, fromStore); d.Banned {
			t.Fatal("banned too early")
		}
	}
	if d := g.want(r, false, fromStore); !d.Banned {
		t.Fatal("not banned by the fifth denial")
	}
	for range 10 {
		if d := g.want(r, false, fromMemory); !d.Banned || d.Key() != "a" {
			t.Fatalf("banned is %v, key %q", d.Banned, d.Key())
		}
	}
	g.cache.drop("")
	if d := g.want(obeys, false, fromStore); !d.Banned || d.RetryAfter != time.Minute {
		t.Errorf("banned is %v, retry-after %v", d.Banned, d.RetryAfter)
	}
	if d := g.want(obeys, false, fromMemory); !d.Banned {
		t.Error("banned is false")
	}
	free := r
	free.Claims = slices.Clone(free.Claims)
	free.Bans = nil // it does not look for bans
	free.Claims[0].Limits = []stint.Limit{stint.PerHour(2)}
	g.want(free, true, fromStore)
	if err := g.cache.Command(t.Context(), stint.Command{Kind: stint.CommandUnban, Subject: "a"}); err != nil {
		t.Fatal(err)
	}
	if d := g.want(r, false, fromStore); d.Banned {
		t.Error("banned after an unban")
	}
}

// No denial counts where every subject is shared, so each is kept.
func TestDenyCacheShared(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 1, stint.PerHour(1))
	own := ask("a", 1, stint.PerHour(1))
	r.Claims[0].Shared, r.Bans, own.Bans = true, banAfter(2, time.Minute), &stint.BanPolicy{}
	g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	for range 5 {
		if d := g.want(r, false, fromMemory); d.Banned {
			t.Fatal("a shared subject was banned")
		}
	}
	if err := g.cache.Command(t.Context(),
		stint.Command{Kind: stint.CommandBan, Subject: "a", For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, from := range []bool{fromStore, fromMemory} {
		if d := g.want(own, false, from); !d.Banned {
			t.Error("who is not shared was not banned")
		}
		if d := g.want(r, false, from); d.Banned {
			t.Error("who is shared was banned")
		}
	}
}

// The denial that leads to a ban may last longer than the ban: when that ends, strikes count again.
func TestDenyCacheShortBan(t *testing.T) {
	g, r := newDenyRig(t, Config{}), ask("a", 2, stint.PerHour(1))
	r.Bans = banAfter(1, 10*time.Millisecond)
	if d := g.want(r, false, fromStore); !d.Banned || d.RetryAfter != stint.Never {
		t.Fatalf("banned is %v, retry-after %v", d.Banned, d.RetryAfter)
	}
	g.clock.Advance(10*time.Millisecond - 1)
	g.want(r, false, fromMemory)
	g.clock.Advance(time.Microsecond)
	g.want(r, false, fromStore)
	r.Claims[0].Limits = []stint.Limit{stint.PerHour(100)}
	if d := g.want(r, false, fromStore); d.RetryAfter != time.Hour {
		t.Errorf("retry-after is %v, want that of the second ban", d.RetryAfter)
	}
}
