package resilience

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// Whatever a denial depends on is part of the question: any difference asks the store.
func TestDenyCacheTellsQuestionsApart(t *testing.T) {
	base := func() stint.Request {
		r := ask("a", 3, stint.Limit{Max: 0, Window: time.Hour},
			stint.Limit{Max: 100, Window: time.Minute, Burst: 200, Name: "x"})
		r.Claims[0].Scope = "s"
		r.Claims = append(
			r.Claims[:1:1],
			[]stint.Claim{{Subject: "b", Limits: []stint.Limit{stint.PerDay(1000)}, Cost: 2}}...)
		return r
	}
	for name, change := range map[string]func(*stint.Request){
		"subject":       func(r *stint.Request) { r.Claims[0].Subject = "c" },
		"scope":         func(r *stint.Request) { r.Claims[0].Scope = "" },
		"another scope": func(r *stint.Request) { r.Claims[0].Scope = "t" },
		"cost":          func(r *stint.Request) { r.Claims[0].Cost = 4 },
		"max":           func(r *stint.Request) { r.Claims[0].Limits[1].Max, r.Claims[0].Limits[1].Burst = 50, 0 },
		"burst":         func(r *stint.Request) { r.Claims[0].Limits[1].Burst = 300 },
		"window":        func(r *stint.Request) { r.Claims[0].Limits[1].Window = 2 * time.Minute },
		"algorithm":     func(r *stint.Request) { r.Claims[0].Limits[1].Algorithm = stint.AlgorithmBucket },
		"name":          func(r *stint.Request) { r.Claims[0].Limits[1].Name = "y" },
		"no name":       func(r *stint.Request) { r.Claims[0].Limits[1].Name = "" },
		"lease":         func(r *stint.Request) { r.Claims[0].Limits[0].Leased = true },
		"order": func(r *stint.Request) {
			r.Claims[0].Limits[0], r.Claims[0].Limits[1] = r.Claims[0].Limits[1], r.Claims[0].Limits[0]
		},
		"one limit less": func(r *stint.Request) { r.Claims[0].Limits = r.Claims[0].Limits[:1] },
		"one limit more": func(r *stint.Request) {
			r.Claims[0].Limits = append(r.Claims[0].Limits, stint.PerDay(1000))
		},
		"one claim less": func(r *stint.Request) { r.Claims = r.Claims[:1] },
		"one claim more": func(r *stint.Request) {
			r.Claims = append(r.Claims, ask("d", 1, stint.PerDay(1)).Claims[0])
		},
		"another claim": func(r *stint.Request) { r.Claims[1].Subject = "c" },
		"its cost":      func(r *stint.Request) { r.Claims[1].Cost = 3 },
		"its limit":     func(r *stint.Request) { r.Claims[1].Limits[0].Max++ },
		"costs the other way round": func(r *stint.Request) {
			r.Claims[0].Cost, r.Claims[1].Cost = r.Claims[1].Cost, r.Claims[0].Cost
		},
		"bans":                    func(r *stint.Request) { r.Bans = &stint.BanPolicy{} },
		"shared":                  func(r *stint.Request) { r.Claims[0].Shared = true },
		"another claim is shared": func(r *stint.Request) { r.Claims[1].Shared = true },
	} {
		t.Run(name, func(t *testing.T) {
			g, changed := newDenyRig(t, Config{}), base()
			change(&changed)
			if err := changed.Validate(); err != nil {
				t.Fatal(err)
			}
			g.want(base(), false, fromStore)
			g.want(base(), false, fromMemory)
			g.want(changed, false, fromStore)
			g.want(changed, false, fromMemory)
			g.want(base(), false, fromMemory)
		})
	}
}

// F25: a limit that was raised admits at once, one that was lowered denies at once.
func TestDenyCacheLimitChanges(t *testing.T) {
	g := newDenyRig(t, Config{})
	g.want(ask("a", 2, stint.PerHour(2)), true, fromStore)
	g.want(ask("a", 1, stint.PerHour(2)), false, fromStore)
	g.want(ask("a", 1, stint.PerHour(2)), false, fromMemory)
	g.want(ask("a", 1, stint.PerHour(2).WithBurst(2)), true, fromStore)
	g.want(ask("a", 1, stint.PerHour(4)), true, fromStore)
	g.want(ask("a", 1, stint.PerHour(4)), false, fromStore)
	g.want(ask("a", 1, stint.PerHour(2)), false, fromMemory)
}

func TestDenyCacheSeveralSubjects(t *testing.T) {
	g := newDenyRig(t, Config{})
	request := func() stint.Request { // in memory of its own
		r := ask("user", 1, stint.PerHour(10), stint.PerDay(20))
		r.Claims = append(r.Claims[:1:1], []stint.Claim{{Subject: "all", Scope: "x",
			Limits: []stint.Limit{stint.PerHour(1), stint.PerDay(5)}, Cost: 1}}...)
		return r
	}
	charged := g.want(request(), true, fromStore)
	first := g.want(request(), false, fromStore)
	first.Usages()[2].Used = 99 // a caller may do as it likes with its answer
	r := request()
	d := g.want(r, false, fromMemory)
	if d.Key() != "all:x" || d.Denier != 2 || *d.Decisive().Limit != stint.PerHour(1) || len(d.States()) != 4 ||
		d.States()[2].Used != 1 {
		t.Errorf("key %q, denier %d, limit %s, states %+v", d.Key(), d.Denier, *d.Decisive().Limit, d.States())
	}
	if !d.Charge.IsZero() || !reflect.DeepEqual(d.Charge.Claims(), r.Claims) {
		t.Errorf("the charge is not that of its request: %+v", d.Charge)
	}
	d.Usages()[2].Used = 98
	if d = g.want(r, false, fromMemory); d.Usages()[2].Used != 1 {
		t.Errorf("used is %d, as another caller left it", d.Usages()[2].Used)
	}
	g.cache.drop("user")
	g.want(r, false, fromStore)
	g.want(r, false, fromMemory)
	if _, err := g.cache.Amend(t.Context(), charged.Charge, stint.Amendment{}); err != nil {
		t.Fatal(err)
	}
	g.want(r, true, fromStore)
}

// One claim that costs is enough.
func TestDenyCacheSomeClaimsOnlyLook(t *testing.T) {
	for _, costs := range [][2]int64{{2, 0}, {0, 2}} {
		g, r := newDenyRig(t, Config{}), ask("a", costs[0], stint.PerHour(1))
		r.Claims = append(r.Claims[:1:1], []stint.Claim{ask("b", costs[1], stint.PerHour(1)).Claims[0]}...)
		g.want(r, false, fromStore)
		g.want(r, false, fromMemory)
	}
}
