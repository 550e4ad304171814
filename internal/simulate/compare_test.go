package simulate_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/simulate"
)

func TestCompare(t *testing.T) {
	set := parse(t, "tiers: [{name: anyone, identity: ip, limits: 3/1m}]")
	other := parse(t, `
tiers:
  - {name: known, identity: user, limits: 5/1m}
  - {name: anyone, identity: ip, limits: 2/1m}
`)
	log := new(records).
		add(6, ann, 0, time.Second, user("ann")). // 3 allowed, against 5
		add(4, bob, 10*time.Second, time.Second). // 3 allowed, against 2
		add(1, "192.0.2.3", time.Minute, 0)
	r := replay(t, log, simulate.Options{Set: set, Against: other})
	want := &simulate.Comparison{
		AllowedByBoth: 6, DeniedByBoth: 2, OnlyDenied: 2, OnlyAgainst: 1, Gaining: 1, Losing: 1,
		Gain: []simulate.Change{{Subject: "ip:" + bob, Denied: 1, Against: 2}},
		// by its name in the first configuration
		Lose: []simulate.Change{{Subject: "ip:" + ann, Denied: 3, Against: 1}},
	}
	if !reflect.DeepEqual(r.Comparison, want) {
		t.Errorf("got %+v, want %+v", r.Comparison, want)
	}
	wantNamed(t, "against", r.Against.Tiers, "known 5/1, anyone 3/2")
}
