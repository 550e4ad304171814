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

// holding makes an op one that holds a place until then.
func (o *op) holding(until time.Duration) *op {
	return o.givingBack(until, until+1)
}

func (o *op) givingBack(from, to time.Duration) *op {
	o.kind, o.gone, o.giving, o.freed = hold, from*ms, span{from * ms, to * ms}, to*ms
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

// The judge objects to histories that are wrong in one way, written by hand. That it accepts good
// ones is what TestHistories shows.
func TestVerdict(t *testing.T) {
	perSecond := func(n int64) stint.Limit { return stint.PerSecond(n) }
	fixed := stint.Limit{Max: 2, Window: time.Second, Algorithm: stint.AlgorithmFixed}
	bucket := stint.TokenBucket(3, 1, time.Second)
	burst := stint.PerSecond(1).WithBurst(3)
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
		ledger    int64 // -1 is not read
		places    int64
		want      string // the first words of what is wrong
	}{
		// Windows.
		{name: "one too many", limit: perSecond(3), ops: times(4, asked(0, allowed, 0, 1)), ledger: 4, want: "over"},
		{name: "one too many, all at the same time for long", limit: perSecond(3),
			ops: times(4, asked(0, allowed, 0, 16)), ledger: 4, want: "over"},
		{name: "surely too early", limit: perSecond(1),
			ops: list(asked(0, allowed, 10, 11), asked(0, allowed, 1000, 1009)), ledger: 2, want: "over"},
		{name: "costs add up", limit: perSecond(5),
			ops: list(asked(0, allowed, 0, 1).of(3), asked(0, allowed, 2, 3).of(3)), ledger: 6, want: "over"},
		{name: "three in a fixed window", limit: fixed,
			ops: list(times(2, asked(0, allowed, 2, 3)), asked(0, allowed, 990, 999)), ledger: 3, want: "over"},
		{name: "a bucket has not refilled", limit: bucket,
			ops: list(times(3, asked(0, allowed, 100, 101)), asked(0, allowed, 1000, 1001)), ledger: 4, want: "over"},
		{name: "two bursts", limit: burst,
			ops: list(times(3, asked(0, allowed, 0, 1)), times(2, asked(0, allowed, 1002, 1003))), ledger: 5,
			want: "over"},
		{name: "a waiter that does not wait", limit: perSecond(1),
			ops: list(asked(0, allowed, 0, 1), asked(0, allowed, 2, 500).waited()), ledger: 2, want: "over"},

		// Processes.
		{name: "one too many without the server", limit: perSecond(3), processes: []process{{troubles: trouble}},
			ops: list(times(3, asked(0, allowed, 0, 1)), asked(0, allowed, 2, 17).alone()), ledger: 4, want: "over"},
		{name: "one too many with the server", limit: perSecond(3), processes: []process{{troubles: trouble}},
			ops: list(times(3, asked(0, allowed, 2, 17).alone()), asked(0, allowed, 20, 21)), ledger: 4, want: "over"},
		{name: "more than a share", limit: perSecond(4),
			processes: []process{{instances: 2, troubles: later, dark: later}},
			ops:       times(3, asked(0, allowed, 2002, 2017).alone()), ledger: 3, want: "share"},
		{name: "more than a share, never having heard of the server", limit: perSecond(4),
			processes: []process{{instances: 2, troubles: trouble, dark: trouble, heard: never}},
			ops:       times(3, asked(0, allowed, 2, 17).alone()), ledger: 3, want: "share"},
		{name: "two processes with the server", limit: perSecond(2),
			processes: []process{{instances: 2}, {instances: 2}},
			ops:       list(times(2, asked(0, allowed, 0, 1)), asked(1, allowed, 0, 2)), ledger: 3, want: "over"},
		{name: "it knows once that was charged", limit: stint.Per(2, 10*time.Second),
			processes: []process{{instances: 2, troubles: trouble}, {instances: 2}},
			ops:       list(asked(0, allowed, 0, 15).alone(), times(2, asked(1, allowed, 9001, 9002))), ledger: 3,
			want: "over"},
		{name: "deny means deny", limit: perSecond(3), processes: []process{{troubles: trouble}}, ops: list(func() *op {
			o := asked(0, allowed, 0, 15).alone()
			o.mode = stint.FailDeny
			return o
		}()), ledger: 1, want: "mode"},

		// What is given back and what begins anew.
		{name: "a refund makes room from its call on", limit: perSecond(1),
			ops: list(asked(0, allowed, 0, 1).settled(10, 11, 0), asked(0, allowed, 3, 4)), ledger: 1, want: "over"},
		{name: "and one too many", limit: stint.Per(1, 2*time.Second).WithBurst(2),
			ops: list(asked(0, allowed, 52, 53).settled(328, 329, 0), asked(0, allowed, 192, 193).settled(545, 546, 0),
				asked(0, allowed, 411, 412), asked(0, allowed, 546, 547), asked(0, allowed, 2411, 2412),
				asked(0, allowed, 3900, 3901)), ledger: 4, want: "over"},
		{name: "a reset that came later", limit: perSecond(1), resets: []reset{{span{5 * ms, 6 * ms}, 0}},
			ops: list(asked(0, allowed, 0, 1), asked(0, allowed, 3, 4)), ledger: 2, want: "over"},
		{name: "more than one capacity for a loss", limit: perSecond(1), losses: []span{{2 * ms, 3 * ms}},
			ops: list(asked(0, allowed, 0, 1), times(2, asked(0, allowed, 4, 5))), ledger: 2, want: "over"},

		// Room.
		{name: "denied with room", limit: perSecond(2), ops: list(asked(0, allowed, 0, 1), asked(0, denied, 2, 3)),
			ledger: 1, want: "room"},
		{name: "denied for too long", limit: perSecond(1),
			ops: list(asked(0, allowed, 0, 1), asked(0, denied, 2002, 2002)), ledger: 1, want: "room"},
		{name: "denied by the server for too long", limit: perSecond(1),
			ops: list(asked(0, allowed, 0, 1), asked(0, denied, 1002, 1003)), ledger: 1, want: "room"},
		{name: "denied for what came later", limit: perSecond(1),
			ops: list(asked(0, denied, 2, 3), asked(0, allowed, 4, 5)), ledger: 1, want: "room"},
		{name: "denied after a refund", limit: stint.Per(1, 10*time.Second),
			ops: list(asked(0, allowed, 0, 1).settled(2, 3, 0), asked(0, denied, 1010, 1011)), ledger: 0, want: "room"},
		{name: "and no more than that", limit: stint.TokenBucket(10, 1, time.Second),
			processes: []process{{troubles: []span{{0, 100 * ms}}}},
			ops: list(asked(0, allowed, 0, 1).of(5), asked(0, denied, 2, 15).alone().of(5),
				asked(0, denied, 4200, 4201).of(4)), ledger: 5,
			want: "room"},
		{name: "a refund to a window gives back all", limit: stint.Per(10, 10*time.Second),
			processes: []process{{troubles: []span{{0, 100 * ms}}}},
			ops: list(asked(0, allowed, 0, 1).of(5), asked(0, denied, 2, 15).alone().of(5),
				asked(0, denied, 4200, 4201).of(5)), ledger: 5,
			want: "room"},
		{name: "denied with a bucket that has refilled", limit: bucket,
			ops: list(times(3, asked(0, allowed, 0, 1)), asked(0, denied, 2002, 2003)), ledger: 3, want: "room"},
		{name: "denied in the next fixed window", limit: fixed,
			ops: list(times(2, asked(0, allowed, 0, 1)), asked(0, denied, 2001, 2002)), ledger: 2, want: "room"},
		{name: "denied later than an answer from the fixed window before may come", limit: fixed,
			processes: []process{{troubles: trouble, delayed: trouble}},
			ops:       list(times(2, asked(0, allowed, 500, 501)), asked(0, denied, 1300, 1315).alone()), ledger: 2, want: "room"},
		{name: "denied below its share", limit: perSecond(4), processes: []process{{instances: 2, troubles: trouble}},
			ops: list(asked(0, denied, 18, 33).alone()), ledger: 0, want: "room"},
		{name: "one process denied by itself with room", limit: perSecond(4), processes: []process{{troubles: trouble}},
			ops: list(asked(0, allowed, 0, 1), asked(0, denied, 18, 33).alone()), ledger: 1, want: "room"},

		{name: "denied for what was charged later than it was admitted", limit: perSecond(1),
			processes: []process{{troubles: trouble}},
			ops:       list(asked(0, allowed, 0, 15).alone(), asked(0, denied, 1100, 1101)), ledger: 1, want: "room"},
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
		{name: "denied for what was charged twice", limit: stint.Per(2, 10*time.Second),
			processes: []process{{troubles: trouble}},
			ops:       list(asked(0, allowed, 0, 15).alone(), asked(0, denied, 20, 21)), ledger: 1, want: "room"},
		{name: "denied without the server for longer than that", limit: perSecond(1),
			processes: []process{{troubles: trouble, dark: trouble}},
			ops:       list(asked(0, allowed, 0, 15), asked(0, denied, 1080, 1081).alone()), ledger: 1, want: "room"},
		{name: "denied for charges of which one is in doubt",
			limit: stint.PerSecond(1).WithBurst(3), processes: []process{{troubles: trouble}},
			ops: list(asked(0, allowed, 0, 1), asked(0, allowed, 1100, 1115).alone().named("a"),
				asked(0, allowed, 1100, 1115).alone(), asked(0, allowed, 1100, 1115).alone(),
				asked(0, denied, 6500, 6501)), ledger: 4, want: "room"},
		{name: "denied for what was charged to somebody who was denied", limit: stint.Per(1, 10*time.Second),
			processes: []process{{troubles: []span{{0, 10 * ms}}}},
			ops:       list(asked(0, denied, 0, 15).alone(), asked(0, denied, 9000, 9001)), ledger: 0, want: "room"},

		// Two limits.
		{name: "too much for the second limit", limit: perSecond(3), other: stint.PerMinute(5),
			ops: list(times(3, asked(0, allowed, 0, 1)), times(3, asked(0, allowed, 1002, 1003))), ledger: 6,
			want: "over"},
		{name: "denied by neither limit", limit: perSecond(3), other: stint.PerMinute(4),
			ops: list(times(3, asked(0, allowed, 0, 1)), asked(0, denied, 3000, 3001)), ledger: 3, want: "room"},
		{name: "more than a share of the second limit", limit: perSecond(9), other: stint.PerMinute(4),
			processes: []process{{instances: 2, troubles: later, dark: later}},
			ops:       times(3, asked(0, allowed, 2002, 2017).alone()), ledger: 3, want: "share"},

		// Bans.
		{name: "admitted although banned", limit: perSecond(3), bans: bans,
			ops: list(asked(0, denied, 2, 3).of(4), asked(0, denied, 4, 5).of(4).banning(),
				asked(0, allowed, 404, 405)),
			ledger: 1, want: "ban"},
		{name: "admitted without the server although banned", limit: perSecond(3), bans: bans,
			processes: []process{{troubles: trouble}},
			ops: list(asked(0, denied, 2, 3).of(4), asked(0, denied, 4, 5).of(4).banning(),
				asked(0, allowed, 404, 419).alone()), ledger: 1, want: "ban"},
		{name: "banned for one denial", limit: perSecond(3), bans: bans,
			ops: list(asked(0, denied, 4, 5).of(4).banning()), ledger: 0, want: "ban"},
		{name: "banned for too long", limit: perSecond(3), bans: bans,
			ops: list(asked(0, denied, 2, 3).of(4), asked(0, denied, 4, 5).of(4).banning(),
				asked(0, denied, 404, 405).bannedFor(110)), ledger: 0, want: "ban"},
		{name: "a first ban as long as a second", limit: perSecond(3), bans: bans,
			ops: list(asked(0, denied, 2, 3).of(4), asked(0, denied, 4, 5).of(4).bannedFor(2000)), ledger: 0,
			want: "ban"},

		// What the server counts.
		{name: "not charged", limit: perSecond(5), ops: times(3, asked(0, allowed, 0, 1)), ledger: 2, want: "ledger"},
		{name: "charged twice", limit: perSecond(5), ops: times(3, asked(0, allowed, 0, 1)), ledger: 4, want: "ledger"},
		{name: "owed and never charged", limit: perSecond(5), processes: []process{{troubles: trouble}},
			ops: times(3, asked(0, allowed, 0, 15).alone()), ledger: 0, want: "ledger"},
		{name: "charged and told to be denied", limit: perSecond(5), processes: []process{{troubles: trouble}},
			ops: list(func() *op {
				o := asked(0, denied, 0, 15).alone()
				o.flat, o.mode = true, stint.FailDeny
				return o
			}()), ledger: 1, want: "ledger"},
		{name: "a refund that was accepted and lost", limit: perSecond(5), processes: []process{{troubles: trouble}},
			ops: list(asked(0, allowed, 0, 1).settled(10, 25, 0)), ledger: 1, want: "ledger"},
		{name: "the same of what was admitted without the server", limit: perSecond(5),
			processes: []process{{troubles: trouble}},
			ops:       list(asked(0, allowed, 0, 15).alone().settled(20, 35, 0)), ledger: 1, want: "ledger"},
		{name: "a raise that was accepted and lost", limit: perSecond(5), processes: []process{{troubles: trouble}},
			ops: list(asked(0, allowed, 0, 1).settled(10, 25, 3)), ledger: 1, want: "ledger"},
		{name: "denied after it should have", limit: stint.Per(1, 20*time.Second),
			processes: []process{{troubles: trouble}},
			ops:       list(asked(0, allowed, 0, 1).settled(2, 17, 0), asked(0, denied, 9010, 9011)), ledger: 0,
			want: "room"},
		{name: "a booking that was moved up and is still there", limit: perSecond(5),
			ops: list(asked(0, allowed, 0, 600).waited()), ledger: 2, want: "ledger"},
		{name: "a booking that was canceled and is still there", limit: perSecond(5),
			ops: list(asked(0, failed, 0, 600).waited()), ledger: 1, want: "ledger"},
		{name: "an error, and charged all the same", limit: perSecond(5), processes: []process{{troubles: trouble}},
			ops: list(asked(0, failed, 0, 15)), ledger: 1, want: "ledger"},
		{name: "a repeat that was charged", limit: perSecond(1),
			ops: list(asked(0, allowed, 0, 1).named("a"), asked(0, allowed, 2, 3).named("a").again()), ledger: 2,
			want: "ledger"},

		{name: "too early even for the first request with an id", limit: perSecond(1),
			processes: []process{{troubles: trouble}}, ops: list(asked(0, allowed, 10, 50).named("a").alone().again(),
				asked(0, allowed, 30, 50).named("a").alone(), asked(0, allowed, 1000, 1005)), ledger: -1, want: "over"},
		{name: "too early even for the request whose answer was lost", limit: perSecond(1),
			processes: []process{{troubles: trouble}}, ops: list(asked(0, denied, 10, 25).named("a").alone(),
				asked(0, allowed, 30, 50).named("a").alone(), asked(0, allowed, 1000, 1005)), ledger: -1, want: "over"},
		{name: "by the server, not as of the request whose answer was lost", limit: perSecond(1),
			processes: []process{{troubles: trouble}}, ops: list(asked(0, denied, 10, 25).named("a").alone(),
				asked(0, allowed, 30, 50).named("a"), asked(0, allowed, 1015, 1020)), ledger: -1, want: "over"},
		{name: "a refund of what was repeated", limit: perSecond(1), processes: []process{{troubles: trouble}},
			ops: list(asked(0, denied, 0, 15).alone().named("a"), asked(0, allowed, 0, 15).alone().named("a")), ledger: 0,
			want: "ledger"},
		{name: "a reset, and no refund", limit: perSecond(1), processes: []process{{troubles: trouble}},
			resets: []reset{{span{22 * ms, 23 * ms}, 0}},
			ops:    list(asked(0, allowed, 0, 15).alone().named("a"), asked(0, allowed, 0, 15).alone().named("a")), ledger: 0,
			want: "ledger"},

		// Places.
		{name: "too many places", limit: stint.AtOnce(2, time.Second),
			ops: list(asked(0, allowed, 0, 1).holding(10), asked(0, allowed, 0, 1).holding(5),
				asked(0, allowed, 3, 4).holding(10)), ledger: -1, want: "places"},
		{name: "a place that is left", limit: stint.AtOnce(2, time.Second),
			ops: list(asked(0, allowed, 0, 1).holding(10)), places: 1, ledger: -1, want: "places"},
		{name: "denied a free place", limit: stint.AtOnce(1, time.Second),
			ops: list(asked(0, allowed, 0, 1).holding(10), asked(0, denied, 12, 13).holding(0)), ledger: -1,
			want: "room"},

		// Times.
		{name: "too slow", limit: perSecond(1), ops: list(asked(0, allowed, 2000, 2018)), ledger: 1, want: "budget"},
		{name: "a settlement that waits for the server", limit: perSecond(1), processes: []process{{troubles: trouble}},
			ops: list(asked(0, allowed, 0, 1).settled(10, 1010, 0)), ledger: 0, want: "budget"},
		{name: "a place given back when the server answers", limit: stint.AtOnce(1, time.Second),
			processes: []process{{troubles: trouble}}, ops: list(asked(0, allowed, 0, 1).givingBack(10, 1010)),
			ledger: -1,
			want:   "budget"},
		{name: "a waiter that gives up and waits for the server", limit: perSecond(1),
			processes: []process{{troubles: trouble}},
			ops:       list(asked(0, failed, 2000, 3100).waited().within(100)), ledger: 0, want: "budget"},
		{name: "a short deadline, and charged all the same", limit: perSecond(1),
			ops: list(asked(0, failed, 9000, 9001).within(1)), ledger: 1, want: "ledger"},
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
				readings: []reading{{ledger: test.ledger, places: test.places}},
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
