package histories

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

const ms = time.Millisecond

// asked is an op of a process on the first subject, from one millisecond to another.
func asked(process int, told outcome, call, ret time.Duration) *op {
	return &op{process: process, claims: []claim{{0, 1}}, told: told, call: call * ms, ret: ret * ms,
		gone: never, freed: never}
}

func (o *op) alone() *op          { o.degraded = true; return o }
func (o *op) banning() *op        { return o.bannedFor(500) }
func (o *op) of(n int64) *op      { o.claims[0].cost = n; return o }
func (o *op) named(id string) *op { o.id = id; return o }
func (o *op) again() *op          { o.repeat = true; return o }

func (o *op) settled(call, ret time.Duration, cost int64) *op {
	o.amends = append(o.amends, amend{call: call * ms, ret: ret * ms, cost: cost, applied: true})
	return o
}

// waited makes an op one that waits, for as long as it did.
func (o *op) waited() *op {
	o.kind, o.deadline, o.ahead = wait, o.ret-o.call, o.ret-o.call
	return o
}

// within gives an op a deadline of its own.
func (o *op) within(d time.Duration) *op { o.deadline = d * ms; return o }

func (o *op) bannedFor(left time.Duration) *op {
	o.banned, o.banLeft = true, left*ms
	return o
}

// times repeats an op.
func times(n int, o *op) []*op {
	var all []*op
	for range n {
		c := *o
		all = append(all, &c)
	}
	return all
}

func list(parts ...any) (all []*op) {
	for _, p := range parts {
		switch p := p.(type) {
		case *op:
			all = append(all, p)
		case []*op:
			all = append(all, p...)
		}
	}
	return all
}

// What the judge excuses has bounds: it objects to histories that are just beyond one of them,
// written by hand. TestSabotageIsFound shows that it finds what nothing excuses, and TestHistories
// that it accepts good histories.
func TestVerdict(t *testing.T) {
	perSecond := func(n int64) stint.Limit { return stint.PerSecond(n) }
	fixed := stint.Limit{Max: 2, Window: time.Second, Algorithm: stint.AlgorithmFixed}
	trouble, later := []span{{0, 5000 * ms}}, []span{{2000 * ms, 5000 * ms}}
	bans := &stint.BanPolicy{After: 2, Within: time.Second, Durations: []time.Duration{500 * ms, 2 * time.Second}}
	for _, test := range []struct {
		name      string
		limit     stint.Limit
		other     stint.Limit // of the same subject, if it has one
		bans      *stint.BanPolicy
		processes []process // the first is there if nil; died 0 means never
		losses    []span
		resets    []reset
		ops       []*op
		ledger    int64  // -1 is not read
		want      string // the first words of what is wrong
	}{
		// Windows.
		{name: "surely too early", limit: perSecond(1),
			ops: list(asked(0, allowed, 10, 11), asked(0, allowed, 1000, 1009)), ledger: 2, want: "over"},
		{name: "a waiter that does not wait", limit: perSecond(1),
			ops: list(asked(0, allowed, 0, 1), asked(0, allowed, 2, 500).waited()), ledger: 2, want: "over"},
		// Processes.
		{name: "more than a share", limit: perSecond(4),
			processes: []process{{instances: 2, troubles: later, dark: later}},
			ops:       times(3, asked(0, allowed, 2002, 2017).alone()), ledger: 3, want: "share"},
		{name: "more than a share, never having heard of the server", limit: perSecond(4),
			processes: []process{{instances: 2, troubles: trouble, dark: trouble, heard: never}},
			ops:       times(3, asked(0, allowed, 2, 17).alone()), ledger: 3, want: "share"},
		{name: "over by what another process owed, once that was charged", limit: stint.Per(2, 10*time.Second),
			processes: []process{{instances: 2, troubles: trouble}, {instances: 2}},
			ops:       list(asked(0, allowed, 0, 15).alone(), times(2, asked(1, allowed, 9001, 9002))), ledger: 3,
			want: "over"},
		{name: "admitted without the server under the mode deny", limit: perSecond(3), processes: []process{{troubles: trouble}}, ops: list(func() *op {
			o := asked(0, allowed, 0, 15).alone()
			o.mode = stint.FailDeny
			return o
		}()), ledger: 1, want: "mode"},
		// What is given back and what begins anew.
		{name: "a refund makes room from its call on", limit: perSecond(1),
			ops: list(asked(0, allowed, 0, 1).settled(10, 11, 0), asked(0, allowed, 3, 4)), ledger: 1, want: "over"},
		{name: "one too many for a burst, beside refunds", limit: stint.Per(1, 2*time.Second).WithBurst(2),
			ops: list(asked(0, allowed, 52, 53).settled(328, 329, 0), asked(0, allowed, 192, 193).settled(545, 546, 0),
				asked(0, allowed, 411, 412), asked(0, allowed, 546, 547), asked(0, allowed, 2411, 2412),
				asked(0, allowed, 3900, 3901)), ledger: 4, want: "over"},
		{name: "more than one capacity for a loss", limit: perSecond(1), losses: []span{{2 * ms, 3 * ms}},
			ops: list(asked(0, allowed, 0, 1), times(2, asked(0, allowed, 4, 5))), ledger: 2, want: "over"},
		// Room.
		{name: "denied for too long", limit: perSecond(1),
			ops: list(asked(0, allowed, 0, 1), asked(0, denied, 2002, 2002)), ledger: 1, want: "room"},
		{name: "denied as if a refund lost more than a bucket had refilled", limit: stint.TokenBucket(10, 1, time.Second),
			processes: []process{{troubles: []span{{0, 100 * ms}}}},
			ops: list(asked(0, allowed, 0, 1).of(5), asked(0, denied, 2, 15).alone().of(5),
				asked(0, denied, 4200, 4201).of(4)), ledger: 5,
			want: "room"},
		{name: "a refund to a window gives back all", limit: stint.Per(10, 10*time.Second),
			processes: []process{{troubles: []span{{0, 100 * ms}}}},
			ops: list(asked(0, allowed, 0, 1).of(5), asked(0, denied, 2, 15).alone().of(5),
				asked(0, denied, 4200, 4201).of(5)), ledger: 5,
			want: "room"},
		{name: "denied later than an answer from the fixed window before may come", limit: fixed,
			processes: []process{{troubles: trouble, delayed: trouble}},
			ops:       list(times(2, asked(0, allowed, 500, 501)), asked(0, denied, 1300, 1315).alone()), ledger: 2, want: "room"},
		{name: "an admission by itself, charged later than any message takes", limit: perSecond(1),
			processes: []process{{troubles: trouble, delayed: trouble}},
			ops:       list(asked(0, allowed, 0, 15).alone(), asked(0, denied, 1330, 1331)), ledger: 1, want: "room"},
		{name: "given up by a waiter whose booking has left its window, wherever it was", limit: perSecond(1),
			processes: []process{{troubles: trouble, dark: trouble}},
			ops:       list(asked(0, failed, 0, 40).waited(), asked(0, denied, 1300, 1300).alone()), ledger: 1,
			want: "room"},
		{name: "a refund by a process that lived to make it", limit: stint.Per(1, 10*time.Second),
			processes: []process{{troubles: trouble}, {}},
			ops:       list(asked(0, allowed, 0, 15).settled(20, 20, 0), asked(1, denied, 9900, 9901)), ledger: 0,
			want: "room"},
		{name: "denied without the server for longer than a sixteenth of the window", limit: perSecond(1),
			processes: []process{{troubles: trouble, dark: trouble}},
			ops:       list(asked(0, allowed, 0, 15), asked(0, denied, 1080, 1081).alone()), ledger: 1, want: "room"},
		{name: "denied for charges of which one is in doubt",
			limit: stint.PerSecond(1).WithBurst(3), processes: []process{{troubles: trouble}},
			ops: list(asked(0, allowed, 0, 1), asked(0, allowed, 1100, 1115).alone().named("a"),
				asked(0, allowed, 1100, 1115).alone(), asked(0, allowed, 1100, 1115).alone(),
				asked(0, denied, 6500, 6501)), ledger: 4, want: "room"},
		// Two limits.
		{name: "more than a share of the second limit", limit: perSecond(9), other: stint.PerMinute(4),
			processes: []process{{instances: 2, troubles: later, dark: later}},
			ops:       times(3, asked(0, allowed, 2002, 2017).alone()), ledger: 3, want: "share"},
		// Bans.
		{name: "admitted without the server although banned", limit: perSecond(3), bans: bans,
			processes: []process{{troubles: trouble}},
			ops: list(asked(0, denied, 2, 3).of(4), asked(0, denied, 4, 5).of(4).banning(),
				asked(0, allowed, 404, 419).alone()), ledger: 1, want: "ban"},
		// What the server counts.
		{name: "denied after it should have", limit: stint.Per(1, 20*time.Second),
			processes: []process{{troubles: trouble}},
			ops:       list(asked(0, allowed, 0, 1).settled(2, 17, 0), asked(0, denied, 9010, 9011)), ledger: 0,
			want: "room"},
		{name: "too early even for the first request with an id", limit: perSecond(1),
			processes: []process{{troubles: trouble}}, ops: list(asked(0, allowed, 10, 50).named("a").alone().again(),
				asked(0, allowed, 30, 50).named("a").alone(), asked(0, allowed, 1000, 1005)), ledger: -1, want: "over"},
		{name: "too early even for the request whose answer was lost", limit: perSecond(1),
			processes: []process{{troubles: trouble}}, ops: list(asked(0, denied, 10, 25).named("a").alone(),
				asked(0, allowed, 30, 50).named("a").alone(), asked(0, allowed, 1000, 1005)), ledger: -1, want: "over"},
		{name: "by the server, not as of the request whose answer was lost", limit: perSecond(1),
			processes: []process{{troubles: trouble}}, ops: list(asked(0, denied, 10, 25).named("a").alone(),
				asked(0, allowed, 30, 50).named("a"), asked(0, allowed, 1015, 1020)), ledger: -1, want: "over"},
		{name: "a refund that a reset before it does not explain", limit: perSecond(1), processes: []process{{troubles: trouble}},
			resets: []reset{{span{22 * ms, 23 * ms}, 0}},
			ops:    list(asked(0, allowed, 0, 15).alone().named("a"), asked(0, allowed, 0, 15).alone().named("a")), ledger: 0,
			want: "ledger"},
		// Times.
		{name: "a settlement that waits for the server", limit: perSecond(1), processes: []process{{troubles: trouble}},
			ops: list(asked(0, allowed, 0, 1).settled(10, 1010, 0)), ledger: 0, want: "budget"},
		{name: "a waiter that gives up, and waits for the server", limit: perSecond(1),
			processes: []process{{troubles: trouble}},
			ops:       list(asked(0, failed, 2000, 3100).waited().within(100)), ledger: 0, want: "budget"},
		{name: "a short deadline taken for an outage", limit: perSecond(1),
			ops: list(asked(0, allowed, 9000, 9001).within(1).alone()), ledger: 1, want: "calm"},
		{name: "an error before the deadline", limit: perSecond(1), ops: list(asked(0, failed, 9000, 9001).within(2)),
			ledger: 0, want: "calm"},
		{name: "without a server that is well", limit: perSecond(1), processes: []process{{troubles: trouble}},
			ops: list(asked(0, allowed, 9000, 9001).alone()), ledger: 1, want: "calm"},
	} {
		t.Run(test.name, func(t *testing.T) {
			limits := []stint.Limit{test.limit}
			if test.other.Max > 0 {
				limits = append(limits, test.other)
			}
			h := &history{
				subjects:  []subject{{limits: limits, bans: test.bans, ledger: test.ledger >= 0}},
				processes: test.processes, ops: test.ops,
				losses: test.losses, resets: test.resets, budget: 15 * ms, length: 30 * time.Second,
				readings: []reading{{ledger: test.ledger}},
			}
			if h.processes == nil {
				h.processes = []process{{}}
			}
			for i := range h.processes {
				if p := &h.processes[i]; p.died == 0 {
					p.died = never
				}
				h.processes[i].instances = max(h.processes[i].instances, 1)
			}
			found := verdict(h)
			if len(found) == 0 || !strings.HasPrefix(found[0], test.want) {
				t.Errorf("the judge says %q, want %q", found, test.want)
			}
		})
	}
}
