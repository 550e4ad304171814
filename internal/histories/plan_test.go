package histories

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// plan is a history before it happens. It follows from its seed.
type plan struct {
	seed      uint64
	instances int
	subjects  []subject
	faults    []fault
	steps     []step
	resets    []step
	clock     []clockStep
	sabotage  sabotage
	rest      time.Duration // after all of it
	fleet     *fleet        // at scale, whose requests take the place of steps
	drawn     int           // how many faults a fleet has, with those that are left out
}

// clockStep sets the server's clock forward, or back.
type clockStep struct{ at, by time.Duration }

type faultKind uint8

const (
	stopServer faultKind = iota // nothing runs until it goes on
	endServer                   // with or without its state
	slowLink                    // for one process or all
	lossyLink
	cutLink
	starve // one process: nothing in it goes on
	die    // one process, which may start again
	faultKinds
)

var faultNames = [...]string{"stop", "end", "slow", "lossy", "cut", "starve", "die"}

// fault is something that goes wrong for a time. Slot is whose it is: -1 is everybody's.
type fault struct {
	kind  faultKind
	slot  int
	from  time.Duration
	to    time.Duration
	slow  time.Duration
	lose  [2]float64 // of requests and of replies
	loses bool       // the server its state, or a process all that it would have done at its end
	ends  bool       // a process that dies does not start again
}

func (f fault) String() string {
	return fmt.Sprintf("%s of %d, %v to %v, slow %v, lose %v, loses %v, ends %v", faultNames[f.kind], f.slot, f.from, f.to, f.slow, f.lose, f.loses, f.ends)
}

// step is something that a caller does.
type step struct {
	at     time.Duration
	slot   int
	steady bool // of a caller that is below its limits
	kind   kind
	claims []claim
	id     string
	// deadline is the caller's, from when it asks; 0 is none. It waits until then.
	deadline time.Duration
	cancel   time.Duration // when a waiter gives up before its deadline; 0 is not
	keep     time.Duration // a place, or until the charge is settled; 0 is not
	cost     int64         // to which it is settled; of a holder not 0 if it does not care that its place is lost
	settles  int           // how often a stream is settled,
	apart    bool          // and whether quantity by quantity
}

// After warmUp every process knows how many there are, if all is well until then. After the last
// fault all is well for long enough that everything is settled, and the limits are tried again.
const (
	warmUp = 1300 * time.Millisecond
	tail   = settling + 500*time.Millisecond
)

// draft draws a plan.
func draft(seed uint64) *plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := &plan{seed: seed, instances: pick(rng, 1, 1, 1, 2, 2, 3, 4), rest: settling}
	for range 1 + rng.IntN(2) {
		p.subjects = append(p.subjects, someone(rng, len(p.subjects)))
	}
	last := warmUp
	early := rng.IntN(4) == 0 // the first fault comes before a process can know anything
	for n := range rng.IntN(6) {
		from := warmUp + between(rng, 0, 3*time.Second)
		if early && n == 0 {
			from = pick(rng, 0, 0, scaled(rng, 100*time.Microsecond, warmUp))
		}
		f := someFault(rng, p.instances, from)
		p.faults = append(p.faults, f)
		last = max(last, f.to)
	}
	slices.SortStableFunc(p.faults, func(a, b fault) int { return cmp.Compare(a.from, b.from) })
	calm := -1 // a subject whose only caller is below its limits
	if rng.IntN(5) == 0 && !p.subjects[0].places() {
		calm = 0
		p.steady(rng, last+tail, calm)
	}
	for range 3 + rng.IntN(8) {
		at := time.Duration(rng.Int64N(int64(last)))
		if len(p.faults) > 0 && rng.IntN(4) > 0 { // most of it where it hurts
			f := p.faults[rng.IntN(len(p.faults))]
			at = max(0, pick(rng, f.from, f.from, f.to)+between(rng, -50*time.Millisecond, 300*time.Millisecond))
		}
		p.burst(rng, at, rng.IntN(len(p.subjects)))
	}
	for s := range p.subjects {
		for range 1 + rng.IntN(2) {
			p.burst(rng, last+tail+between(rng, 0, 2*time.Second), s)
		}
	}
	p.steps = slices.DeleteFunc(p.steps, func(s step) bool {
		return !s.steady && slices.ContainsFunc(s.claims, func(c claim) bool { return c.subject == calm })
	})
	p.sort()
	if rng.IntN(8) == 0 {
		p.resets = append(p.resets, step{at: between(rng, 0, last), slot: rng.IntN(p.instances),
			claims: []claim{{rng.IntN(len(p.subjects)), 0}}})
	}
	return p
}

// sort puts steps in order, no two at one instant: which of them is first is not for the scheduler
// to say.
func (p *plan) sort() {
	slices.SortStableFunc(p.steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(p.steps); i++ {
		p.steps[i].at = max(p.steps[i].at, p.steps[i-1].at+1)
	}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}

// scaled draws a duration of any order of magnitude between two.
func scaled(rng *rand.Rand, from, to time.Duration) time.Duration {
	return time.Duration(float64(from) * math.Pow(float64(to)/float64(from), rng.Float64()))
}

// someone draws a subject.
func someone(rng *rand.Rand, n int) subject {
	s := subject{
		name: fmt.Sprintf("s%d", n), ledger: rng.IntN(4) > 0,
		mode: pick(rng, stint.FailLocal, stint.FailLocal, stint.FailLocal, stint.FailLocal, stint.FailLocal,
			stint.FailDeny, stint.FailError, stint.FailAllow),
	}
	if rng.IntN(4) == 0 {
		s.bans = &stint.BanPolicy{
			After: 2 + rng.IntN(3), Within: pick(rng, 100*time.Millisecond, time.Second, 5*time.Second),
			Durations: pick(rng, []time.Duration{200 * time.Millisecond}, []time.Duration{time.Second},
				[]time.Duration{200 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}),
			Forgive: pick(rng, 0, time.Second, 10*time.Second),
		}
	}
	if rng.IntN(5) == 0 {
		s.limits = []stint.Limit{
			stint.Concurrency(pick[int64](rng, 1, 2, 5), pick(rng, 300*time.Millisecond, time.Second, 2*time.Second))}
		s.mode = pick(rng, stint.FailLocal, stint.FailDeny, stint.FailDeny)
		s.ledger = false
		return s
	}
	s.limits = []stint.Limit{someRate(rng)}
	if other := someRate(rng); rng.IntN(4) == 0 && other.Window != s.limits[0].Window {
		s.limits = append(s.limits, other)
	}
	return s
}

// someRate draws a limit of a rate.
func someRate(rng *rand.Rand) stint.Limit {
	window := pick(rng, 50*time.Millisecond, 200*time.Millisecond, time.Second, 2*time.Second, 5*time.Second,
		10*time.Second, 10*time.Second)
	most := pick[int64](rng, 1, 2, 3, 5, 10, 10, 20, 50)
	switch rng.IntN(8) {
	case 0, 1, 2, 3:
		return stint.Per(most, window)
	case 4, 5:
		return stint.Limit{Max: most, Window: window, Algorithm: stint.AlgorithmFixed}
	case 6:
		return stint.TokenBucket(most, pick(rng, most, (most+1)/2, 2*most), window)
	default:
		return stint.Per((most+2)/3, window).BurstTimes(pick[int64](rng, 2, 3))
	}
}

// someFault draws a fault.
func someFault(rng *rand.Rand, instances int, from time.Duration) fault {
	f := fault{kind: faultKind(rng.IntN(int(faultKinds))), slot: rng.IntN(instances), from: from}
	f.to = from + scaled(rng, 2*time.Millisecond, 2*time.Second)
	switch f.kind {
	case stopServer:
		f.slot = -1
	case endServer:
		f.slot, f.loses = -1, rng.IntN(3) == 0
	case slowLink:
		f.slow = scaled(rng, 2*time.Millisecond, 200*time.Millisecond)
		f.slot = pick(rng, f.slot, -1)
	case lossyLink:
		f.lose = [2]float64{pick(rng, 0, 0.2, 1), pick(rng, 0, 0.2, 1)}
		f.slot = pick(rng, f.slot, -1)
	case cutLink:
		f.to = f.from
	case starve:
		f.to = from + scaled(rng, 2*time.Millisecond, 400*time.Millisecond)
	case die:
		f.loses, f.ends = rng.IntN(3) > 0, rng.IntN(3) == 0
	}
	return f
}

// steady adds a caller of a subject that is always below its limits, until an instant.
func (p *plan) steady(rng *rand.Rand, until time.Duration, s int) {
	every := until / 200
	for _, l := range p.subjects[s].limits {
		every = max(every, l.Window/time.Duration(l.Max))
	}
	every += 20*time.Millisecond + between(rng, 0, every/4)
	for at := between(rng, 0, every); at < until; at += every {
		p.steps = append(p.steps, step{at: at, slot: rng.IntN(p.instances), steady: true, claims: []claim{{s, 1}}})
	}
}

// burst adds some questions about a subject.
func (p *plan) burst(rng *rand.Rand, at time.Duration, s int) {
	sub := &p.subjects[s]
	n := min(1+rng.IntN(int(sub.capacity())+4), 25)
	length := pick(rng, time.Nanosecond, 5*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond,
		sub.limits[0].Window)
	one := rng.IntN(p.instances)
	everywhere, ids, waits, hurried := rng.IntN(2) == 0, rng.IntN(6) == 0, rng.IntN(6) == 0, rng.IntN(4) == 0
	for range n {
		t := step{at: at + time.Duration(rng.Int64N(int64(length))), slot: one, claims: []claim{{s, 1}}}
		if everywhere {
			t.slot = rng.IntN(p.instances)
		}
		other := (s + 1) % len(p.subjects)
		switch {
		case sub.places():
			t.kind, t.keep, t.cost = hold, scaled(rng, time.Millisecond, 4*sub.limits[0].Window), rng.Int64N(2)
		case waits:
			window := sub.limits[0].Window
			t.kind, t.deadline = wait, pick(rng, scaled(rng, time.Millisecond, window), window)
			if rng.IntN(3) == 0 {
				t.cancel = pick(rng, scaled(rng, 100*time.Microsecond, t.deadline), between(rng, 1, t.deadline))
			}
		case ids:
			t.id = fmt.Sprintf("%v/%d", at, rng.IntN(4))
		default:
			if rng.IntN(6) == 0 {
				t.claims[0].cost = 1 + rng.Int64N(pick(rng, min(5, sub.capacity()), sub.capacity()))
			}
			if rng.IntN(5) == 0 {
				t.keep, t.cost = scaled(rng, time.Millisecond, 2*time.Second), pick[int64](rng, 0, 0, 0, 1, 3)
			}
			// Whose ban it would be is not for the judge to say.
			if o := &p.subjects[other]; other != s && !o.places() && o.bans == nil && sub.bans == nil &&
				rng.IntN(6) == 0 {
				t.claims = append(t.claims, claim{other, 1})
			}
		}
		if t.kind == take && hurried && rng.IntN(2) == 0 {
			t.deadline = scaled(rng, 100*time.Microsecond, 14*time.Millisecond)
		}
		p.steps = append(p.steps, t)
	}
}

// afflict notes when a process of a slot is not well.
func (p *plan) afflict(slot int, of *process) {
	for _, f := range p.faults {
		if f.slot >= 0 && f.slot != slot || f.kind == die {
			continue
		}
		while := span{f.from, f.to}
		of.troubles = append(of.troubles, span{f.from.Truncate(resolution), f.to + 2*f.slow + resolution})
		switch {
		case f.kind == starve:
			of.starved = append(of.starved, while)
		case f.kind == stopServer, f.kind == endServer, f.lose[0] == 1, f.lose[1] == 1:
			of.dark = append(of.dark, while)
		}
		if f.kind == cutLink || f.kind == endServer {
			of.cuts = append(of.cuts, span{f.from, f.from})
		}
		if f.kind == starve || f.kind == stopServer || f.kind == slowLink {
			of.delayed = append(of.delayed, while)
		}
	}
}

// links are how the messages of a process of a slot fare, in the order of their beginnings.
func (p *plan) links(slot int, start time.Time) (links []link) {
	for _, f := range p.faults {
		if f.slot < 0 || f.slot == slot {
			links = append(links, link{start.Add(f.from), start.Add(f.to), f.slow, f.lose[0], f.lose[1]})
		}
	}
	slices.SortStableFunc(links, func(a, b link) int { return a.from.Compare(b.from) })
	return links
}
