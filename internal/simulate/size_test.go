package simulate_test

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/simulate"
)

// describeLoad returns a load as text: how long after start, requests, decisions, settlements.
func describeLoad(l simulate.Load) string {
	return words(l.At.Sub(start), l.Requests, l.Decisions, l.Settlements)
}

func TestBusiest(t *testing.T) {
	minute := `tiers: [{name: anyone, identity: ip, limits: 100/1m}]`
	shadow := minute + `
policies: [{name: new, match: {path: /new}, limits: 50/1m, shadow: true}]`
	free := `tiers: [{name: anyone, identity: ip, limits: unlimited}]`
	refund := minute + `
policies: [{name: refund, refund: [5xx]}]`
	calm := func() *records {
		return new(records).add(2, ann, 0, time.Second).
			add(3, bob, 10*time.Second, 100*time.Millisecond). // the busiest second
			add(2, ann, 52*time.Second, 900*time.Millisecond). // start is 7 s into a minute: its last second
			add(1, bob, 53*time.Second, 0)                     // the first second of the next
	}
	tests := []struct {
		name, config   string
		log            *records
		second, minute string
	}{
		{"a calm log", minute, calm(), "10s 3 3 0", "-7s 7 7 0"},
		{"the last second", minute, calm().add(5, bob, 2*time.Minute, 0), "2m0s 5 5 0", "-7s 7 7 0"},
		{"both ends of a second", minute,
			new(records).add(1, ann, 999999*time.Microsecond, 0).add(2, ann, time.Second, 0), "1s 2 2 0", "-7s 3 3 0"},
		// A request whose time goes back counts at the latest time before it.
		{"time going backward", minute, new(records).add(2, ann, 5*time.Second, 0).add(2, bob, 0, 0), "5s 4 4 0", "-7s 4 4 0"},
		{"shadow asks again", shadow, new(records).add(3, ann, 0, 0).add(2, ann, time.Second, 0, path("/new")), "1s 2 4 0", "-7s 5 7 0"},
		{"refunds", refund, new(records).add(2, ann, 0, 0).add(2, ann, time.Second, 0, status(503)), "1s 2 2 2", "-7s 4 4 2"},
		{"unlimited", free, calm(), "10s 3 0 0", "-7s 7 0 0"},
	}
	for _, test := range tests {
		size := replay(t, test.log, simulate.Options{Set: parse(t, test.config)}).Outcome.Size
		if got := describeLoad(size.Second); got != test.second {
			t.Errorf("%s: the busiest second is %s, want %s", test.name, got, test.second)
		}
		if got := describeLoad(size.Minute); got != test.minute {
			t.Errorf("%s: the busiest minute is %s, want %s", test.name, got, test.minute)
		}
	}
	empty := replay(t, new(records), simulate.Options{Set: parse(t, minute)}).Outcome.Size
	if empty != (simulate.Size{}) {
		t.Errorf("an empty log needs %+v", empty)
	}
}
