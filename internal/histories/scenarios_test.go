package histories

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// Histories that went wrong once, written by hand: the shortest that show it.
func TestScenarios(t *testing.T) {
	tenPerMinute := []subject{{name: "s", limits: []stint.Limit{stint.PerMinute(10)}}}
	counted := []subject{{name: "s", limits: []stint.Limit{stint.PerMinute(10)}, ledger: true}}
	sec := time.Second
	for _, test := range []struct {
		name string
		plan plan
	}{
		{"the server is stopped for a moment, and 9 requests are decided without it", plan{
			instances: 1, subjects: tenPerMinute,
			faults: []fault{{kind: stopServer, slot: -1, from: 2 * sec, to: 3 * sec}},
			steps:  sequence(asking(1, 1*sec), asking(9, 2*sec+20*ms), asking(12, 4*sec), asking(3, 10*sec)),
		}},
		{"the same, and one request at a time is decided without it", plan{
			instances: 1, subjects: tenPerMinute,
			faults: []fault{
				{kind: stopServer, slot: -1, from: 2 * sec, to: 2*sec + 50*ms},
				{kind: stopServer, slot: -1, from: 3 * sec, to: 3*sec + 50*ms},
				{kind: stopServer, slot: -1, from: 4 * sec, to: 4*sec + 50*ms},
				{kind: stopServer, slot: -1, from: 5 * sec, to: 5*sec + 50*ms},
			},
			steps: sequence(asking(5, 1*sec), asking(1, 2*sec+1), asking(1, 3*sec+1), asking(1, 4*sec+1),
				asking(1, 5*sec+1), asking(5, 5500*ms)),
		}},
		{"what is owed does not fit any more", plan{
			instances: 2, subjects: counted,
			faults: []fault{{kind: lossyLink, slot: 0, from: 2 * sec, to: 4 * sec, lose: [2]float64{1, 1}}},
			steps:  sequence(asking(1, 1*sec), asking(5, 2*sec+1), from(1, asking(10, 3*sec)), asking(1, 8*sec)),
		}},
		{"replies are lost: what was charged is not charged again, and what was not is", plan{
			instances: 1, subjects: counted,
			faults: []fault{
				{kind: lossyLink, slot: 0, from: 2 * sec, to: 2500 * ms, lose: [2]float64{0, 1}},
				{kind: lossyLink, slot: 0, from: 3 * sec, to: 3500 * ms, lose: [2]float64{1, 0}},
			},
			steps: sequence(asking(1, 1*sec), asking(3, 2*sec+1), asking(3, 3*sec+1), asking(9, 4*sec)),
		}},
		{"replies are lost, and a fixed window ends before it is known that they are", plan{
			instances: 1, subjects: []subject{{name: "s", ledger: true,
				limits: []stint.Limit{{Max: 5, Window: sec, Algorithm: stint.AlgorithmFixed}}}},
			faults: []fault{
				{kind: lossyLink, slot: 0, from: 2600 * ms, to: 2900 * ms, lose: [2]float64{0, 1}},
				{kind: cutLink, slot: 0, from: 3580 * ms, to: 3580 * ms},
			},
			steps: sequence(asking(1, 1*sec), asking(5, 2720*ms), asking(1, 3360*ms), asking(1, 3363*ms),
				asking(1, 3525*ms), asking(1, 3586*ms), asking(1, 3588*ms)),
		}},
		{"answers come late", plan{
			instances: 1, subjects: counted,
			faults: []fault{{kind: slowLink, slot: 0, from: 2 * sec, to: 4 * sec, slow: 60 * ms}},
			steps:  sequence(asking(1, 1*sec), asking(5, 2*sec+1), asking(5, 3*sec), asking(5, 5*sec)),
		}},
		{"answers come late, and what they charged is given back, for nobody was admitted", plan{
			instances: 1, subjects: []subject{
				{name: "s", limits: []stint.Limit{stint.PerMinute(10)}, ledger: true, mode: stint.FailDeny}},
			faults: []fault{{kind: slowLink, slot: 0, from: 2 * sec, to: 4 * sec, slow: 60 * ms}},
			steps:  sequence(asking(1, 1*sec), asking(5, 2*sec+1), asking(5, 3*sec), asking(10, 8500*ms)),
		}},
		{"outages are longer than a place lasts", plan{ // F41
			instances: 1,
			subjects:  []subject{{name: "s", limits: []stint.Limit{stint.AtOnce(5, sec)}, mode: stint.FailDeny}},
			faults: []fault{{kind: stopServer, slot: -1, from: 2 * sec, to: 3600 * ms},
				{kind: stopServer, slot: -1, from: 7 * sec, to: 8600 * ms}},
			steps: sequence(holding(6, 1*sec, 12*sec), holding(6, 5*sec, 12*sec), holding(6, 10*sec, 12*sec)),
		}},
		{"a steady caller below its limit goes on after an outage", plan{
			instances: 1, subjects: []subject{{name: "s", limits: []stint.Limit{stint.Per(5, 5*sec)}, ledger: true}},
			faults: []fault{{kind: stopServer, slot: -1, from: 2 * sec, to: 4500 * ms}},
			steps:  every(1100*ms, 14*sec),
		}},
		{"callers in a hurry are no outage", plan{
			instances: 1, subjects: counted,
			faults: []fault{{kind: slowLink, slot: 0, from: 0, to: 1 * sec, slow: 3 * ms}},
			steps:  within(ms/2, sequence(asking(5, 4*sec), asking(5, 5*sec), asking(5, 6*sec))),
		}},
		{"the server is not there at the start", plan{
			instances: 2, subjects: counted,
			faults: []fault{{kind: endServer, slot: -1, from: 0, to: 2 * sec}},
			steps:  sequence(asking(6, 1*sec), from(1, asking(6, 1*sec+10)), asking(10, 12*sec)),
		}},
		{"a place is given back while the server is silent", plan{
			instances: 1, subjects: []subject{{name: "s", limits: []stint.Limit{stint.AtOnce(5, 2*sec)}}},
			faults: []fault{{kind: stopServer, slot: -1, from: 2 * sec, to: 4 * sec}},
			steps:  sequence(holding(5, 1900*ms, 300*ms), holding(5, 12*sec, 1*sec)),
		}},
		{"a charge is settled while the server is silent", plan{
			instances: 1, subjects: counted,
			faults: []fault{{kind: stopServer, slot: -1, from: 2 * sec, to: 4 * sec}},
			steps:  sequence(amending(asking(5, 1900*ms), 300*ms, 0), asking(10, 12*sec)),
		}},
		{"waiters give up while the server is silent", plan{
			instances: 1, subjects: []subject{{name: "s", limits: []stint.Limit{stint.Per(1, 2*sec)}, ledger: true}},
			faults: []fault{{kind: stopServer, slot: -1, from: 2 * sec, to: 4 * sec}},
			steps: sequence(asking(1, 1500*ms), waiting(1, 1600*ms, 5*sec, 450*ms), waiting(1, 1700*ms, 5*sec, 600*ms),
				asking(1, 14*sec)),
		}},
		{"a booking is moved while the server is silent, and the failure mode is allow", plan{
			instances: 1, subjects: []subject{
				{name: "s", limits: []stint.Limit{stint.Per(1, 4*sec)}, ledger: true, mode: stint.FailAllow}},
			faults: []fault{{kind: stopServer, slot: -1, from: 2 * sec, to: 5450 * ms}},
			steps:  sequence(asking(1, 1500*ms), waiting(1, 1600*ms, 9*sec, 0), asking(1, 22*sec)),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := watched(t, test.name, test.plan.happen)
			found := verdict(h)
			for _, wrong := range found {
				t.Error(wrong)
			}
			if len(found) > 0 {
				t.Log(h)
			}
		})
	}
}

func sequence(parts ...[]step) (all []step) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// asking is n requests of the first process, one nanosecond after the other.
func asking(n int, at time.Duration) (steps []step) {
	for i := range n {
		steps = append(steps, step{at: at + time.Duration(i), claims: []claim{{0, 1}}})
	}
	return steps
}

// every is a request of the first process every so often.
func every(d, until time.Duration) (steps []step) {
	for at := d; at < until; at += d {
		steps = append(steps, asking(1, at)...)
	}
	return steps
}

// within gives requests a deadline of their callers'.
func within(d time.Duration, steps []step) []step {
	for i := range steps {
		steps[i].deadline = d
	}
	return steps
}

// amending settles requests to a cost after some time.
func amending(steps []step, after time.Duration, cost int64) []step {
	for i := range steps {
		steps[i].keep, steps[i].cost = after, cost
	}
	return steps
}

// waiting is n requests that wait until a deadline, or give up before if cancel is not 0.
func waiting(n int, at, deadline, cancel time.Duration) []step {
	steps := within(deadline, asking(n, at))
	for i := range steps {
		steps[i].kind, steps[i].cancel = wait, cancel
	}
	return steps
}

// from lets another process ask.
func from(slot int, steps []step) []step {
	for i := range steps {
		steps[i].slot = slot
	}
	return steps
}

// holding is n requests for a place, each kept for so long.
func holding(n int, at, keep time.Duration) []step {
	steps := asking(n, at)
	for i := range steps {
		steps[i].kind, steps[i].keep = hold, keep
	}
	return steps
}
