package histories

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
)

// fleet is a history at scale: many processes in several regions, subjects by the hundred thousand,
// and a check of every window instead of a record of every answer. It follows from its numbers.
type fleet struct {
	seed      uint64
	decisions int
	processes int
	subjects  int
	sabotage  sabotage
	hierarchy *hierarchy // instead of all kinds of callers and faults

	// A smaller one, which fails too: see shrink.
	left map[int]bool // the faults that it has; nil is all
	last int          // the number of its last decision; 0 is all
	only *shot        // requests that share a subject with this one; nil is all
}

// far is how long a message takes between the server and each region.
var far = []time.Duration{0, 40 * time.Millisecond, 75 * time.Millisecond}

// lasts is how long requests come, and rate how many come in a second.
func (f *fleet) lasts() time.Duration {
	if f.hierarchy != nil {
		return time.Duration(float64(f.decisions) / f.hierarchy.rate() * float64(time.Second))
	}
	return max(30*time.Second, time.Duration(f.decisions)*50*time.Microsecond)
}
func (f *fleet) rate() float64 { return float64(f.decisions) / f.lasts().Seconds() }

// crowd is a kind of callers.
type crowd struct {
	name   string
	share  int // of all requests, in percent
	mode   stint.FailureMode
	own    bool // each subject has a process of its own
	levels []level
}

// level is a subject of a request: one for so many users.
type level struct {
	users  int
	limits []stint.Limit
}

func (f *fleet) crowds() []crowd {
	if f.hierarchy != nil {
		return f.hierarchy.crowds()
	}
	ten, many := 10*time.Second, int64(f.rate())
	twenty := []stint.Limit{stint.Per(20, ten)}
	return []crowd{
		{name: "shared", share: 30, levels: []level{{1, twenty}}},
		{name: "sticky", share: 10, own: true, levels: []level{{1, twenty}}},
		{name: "two windows", share: 10, mode: stint.FailDeny, levels: []level{{1, []stint.Limit{
			stint.Per(10, 2*time.Second), stint.PerMinute(90)}}}},
		{name: "leased", share: 15, mode: stint.FailDeny, levels: []level{{1000, []stint.Limit{
			stint.Per(many/2, ten).WithLease()}}}},
		{name: "leased for short", share: 10, mode: stint.FailDeny, levels: []level{{1000, []stint.Limit{
			stint.Per(many/10, 2*time.Second).WithLease()}}}},
		{name: "user, team, organization", share: 15, mode: stint.FailDeny, levels: []level{{1, twenty},
			{100, []stint.Limit{stint.Per(max(40, many/8), ten)}},
			{10_000, []stint.Limit{stint.Per(max(40, many/2), ten)}}}},
		{name: "fixed", share: 10, mode: stint.FailDeny, levels: []level{{1, []stint.Limit{
			{Max: 20, Window: 5 * time.Second, Algorithm: stint.AlgorithmFixed}}}}},
	}
}

// shot is one request of a fleet.
type shot struct {
	at          time.Duration
	slot        int
	crowd, user int
	cost        int64
	settle      time.Duration // after how long it is settled; 0 is not
	truth       int64         // to what
}

// shots are the requests of a fleet, in their order: by day and night, more of a few users than of
// all others (Zipf), and now and then a crowd at one of them.
func (f *fleet) shots() iter.Seq2[int, shot] {
	if f.hierarchy != nil {
		return f.hierarchy.shots(f)
	}
	return func(yield func(int, shot) bool) {
		rng := rand.New(rand.NewPCG(f.seed, 1<<40))
		crowds, rate, length := f.crowds(), f.rate(), f.lasts()
		zipf := rand.NewZipf(rng, 1.1, max(10, rate/300), uint64(f.subjects-1))
		var flash shot // until its at
		at := warmUp
		for n := range f.decisions {
			day := 1 + 0.5*math.Sin(4*math.Pi*float64(at)/float64(length))
			at += time.Duration(1 + rng.ExpFloat64()/(rate*day)*float64(time.Second))
			if at > flash.at && rng.Float64() < 1/(15*rate) {
				flash = shot{at: at + between(rng, time.Second, 8*time.Second), crowd: drawCrowd(rng, crowds),
					user: pick(rng, rng.IntN(f.subjects), int(zipf.Uint64()))}
			}
			s := shot{at: at, crowd: drawCrowd(rng, crowds), user: int(zipf.Uint64()), cost: 1}
			if crowded := rng.IntN(5) == 0; crowded && at < flash.at {
				s.crowd, s.user = flash.crowd, flash.user
			}
			region := s.user % len(far)
			s.slot = (rng.IntN(f.processes/len(far))*len(far) + region) % f.processes
			if crowds[s.crowd].own {
				s.slot = s.user % f.processes
			}
			switch rng.IntN(20) {
			case 0, 1:
				s.cost = 2 + rng.Int64N(2)
			case 2:
				s.settle, s.truth = scaled(rng, time.Millisecond, 3*time.Second), pick[int64](rng, 0, 0, 2)
			}
			if o := f.only; o != nil {
				levels := crowds[o.crowd].levels
				if all := levels[len(levels)-1].users; s.crowd != o.crowd || s.user/all != o.user/all {
					continue
				}
			}
			if f.last > 0 && n > f.last || !yield(n, s) {
				return
			}
		}
	}
}

func drawCrowd(rng *rand.Rand, crowds []crowd) int {
	for n, i := rng.IntN(100), 0; ; i++ {
		if n -= crowds[i].share; n < 0 {
			return i
		}
	}
}

// plan draws the faults of a fleet: of single processes more with each process, of the server and
// of all links about as many whatever their number, partitions of regions, deploys, and a clock that
// is set.
func (f *fleet) plan() *plan {
	rng := rand.New(rand.NewPCG(f.seed, 2<<40))
	p := &plan{seed: f.seed, instances: f.processes, sabotage: f.sabotage, fleet: f}
	if f.hierarchy != nil {
		p.faults = f.hierarchy.faults(f)
		return p
	}
	length, more := f.lasts(), 1+f.processes/10
	var all []fault
	for range more * int(length/(1500*time.Millisecond)) {
		one := someFault(rng, f.processes, warmUp+between(rng, 0, length))
		one.ends = false
		if one.slot >= 0 || rng.IntN(more) == 0 {
			all = append(all, one)
		}
	}
	for range int(length / (20 * time.Second)) {
		from, region := warmUp+between(rng, 0, length), rng.IntN(len(far))
		for slot := region; slot < f.processes; slot += len(far) { // a partition
			all = append(all, fault{kind: lossyLink, slot: slot, from: from, to: from + 2*time.Second,
				lose: [2]float64{1, 1}})
		}
	}
	for from := warmUp + length/4; from < length; from += length / 2 {
		for slot := range f.processes { // a deploy
			at := from + time.Duration(slot)*200*time.Millisecond
			all = append(all, fault{kind: die, slot: slot, from: at, to: at + 150*time.Millisecond})
		}
	}
	for i, one := range all {
		if f.left == nil || f.left[i] {
			p.faults = append(p.faults, one)
		}
	}
	p.drawn = len(all)
	slices.SortStableFunc(p.faults, func(a, b fault) int { return int(a.from - b.from) })
	if f.left == nil {
		p.clock = []clockStep{{warmUp + length*2/5, between(rng, time.Second, time.Minute)},
			{warmUp + length*3/5, -between(rng, time.Second, time.Minute)}}
	}
	return p
}

// hash is that of all that a fleet is given: its requests and its faults.
func (f *fleet) hash() string {
	h, p := sha256.New(), f.plan()
	fmt.Fprint(h, f.crowds(), far, p.faults, p.clock)
	var line []byte
	for _, s := range f.shots() {
		line = line[:0]
		for _, n := range [...]int64{int64(s.at), int64(s.slot), int64(s.crowd), int64(s.user), s.cost,
			int64(s.settle), s.truth} {
			line = binary.AppendVarint(line, n)
		}
		h.Write(line)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// outcomes count what the callers of a fleet were told, and what is wrong with it.
type outcomes struct {
	Decisions, Admitted, Denied, Failed int
	Degraded                            int // of those, decided without the server
	Refunded                            int
	Calls                               int     // of the server
	AtLimit                             int     // admissions with which a window was full
	Units                               int64   // that were admitted
	Over                                float64 // by how much the fullest window was over, in parts of its limit
	Seconds                             []second
	Wrong                               []string
	Worst                               shot // the first that was wrong
	WorstAt                             int  // and its number
}

// second is a second of virtual time.
type second struct{ Admitted, Denied, Degraded int }

// watch holds the answers of a fleet to what is promised.
//
//   - over: in no window more than the limit was admitted, and once more for each loss of the
//     server's state. Under the mode local, what was admitted without the server comes on top of
//     it: nothing, if one process has the subject for itself, else all shares for each fault.
//   - room: the server denies no one as long as all that was asked for fits. Leases are left out: a
//     process holds more than was asked for. For a window after a loss of the server's state, what
//     was asked for in three windows has to fit: what is restored of the window before the loss, with
//     what had left that window, counts like the newest unit, which may be from after the loss.
//     What is restored after one loss and again after another counts for a window longer each time:
//     after two losses in two windows no denial is judged.
//   - late: nothing is charged after its caller's deadline.
//   - mode: no one is admitted without the server under deny.
type watch struct {
	fleet    *fleet
	crowds   []crowd
	limits   [][][]int // their numbers, by crowd, level and place
	admitted *Windows
	asked    *Windows
	longer   *Windows // what was asked for in three windows
	result   outcomes
}

func newWatch(f *fleet) *watch {
	v := &watch{fleet: f, crowds: f.crowds()}
	var all, wide, thrice []*stint.Limit
	for _, c := range v.crowds {
		var levels [][]int
		for _, l := range c.levels {
			var numbers []int
			for i := range l.limits {
				numbers = append(numbers, len(all))
				all = append(all, &l.limits[i])
				wide = append(wide, &stint.Limit{Window: l.limits[i].Window + settling})
				thrice = append(thrice, &stint.Limit{Window: 3*l.limits[i].Window + settling})
			}
			levels = append(levels, numbers)
		}
		v.limits = append(v.limits, levels)
	}
	v.admitted, v.asked, v.longer = NewWindows(all...), NewWindows(wide...), NewWindows(thrice...)
	return v
}

// each calls f for each limit of a shot, with its number and subject.
func (v *watch) each(s *shot, f func(l *stint.Limit, number, subject int)) {
	for i := range v.crowds[s.crowd].levels {
		level := &v.crowds[s.crowd].levels[i]
		for k := range level.limits {
			f(&level.limits[k], v.limits[s.crowd][i][k], s.user/level.users)
		}
	}
}

// ask notes that a caller asks.
func (v *watch) ask(s *shot, at time.Duration) {
	v.each(s, func(l *stint.Limit, number, subject int) {
		if !l.Leased {
			v.asked.Admit(number, subject, at, at, max(s.cost, s.truth), false)
			v.longer.Admit(number, subject, at, at, max(s.cost, s.truth), false)
		}
	})
}

// object notes that something is wrong.
func (v *watch) object(n int, s *shot, format string, args ...any) {
	if len(v.result.Wrong) == 0 {
		v.result.Worst, v.result.WorstAt = *s, n
	}
	if len(v.result.Wrong) < 10 {
		v.result.Wrong = append(v.result.Wrong, fmt.Sprintf(format, args...)+
			fmt.Sprintf(": decision %d, %s of user %d, %+v", n, v.crowds[s.crowd].name, s.user, *s))
	}
}

// wrong reports whether something is, so that the rest need not happen.
func (w *world) wrong() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watch.result.Wrong) > 0
}

// admit holds an admission to its limits.
func (v *watch) admit(w *world, n int, s *shot, from, to time.Duration, degraded bool) {
	c := &v.crowds[s.crowd]
	if degraded && c.mode == stint.FailDeny {
		v.object(n, s, "mode: admitted without the server")
	}
	v.each(s, func(l *stint.Limit, number, subject int) {
		shift := time.Duration(0)
		if l.Algorithm == stint.AlgorithmFixed {
			shift = time.Duration(w.server.ahead.Load())
		}
		all, without := v.admitted.Admit(number, subject, from+shift-resolution, to+shift, s.cost, degraded)
		capacity := l.Capacity()
		if all >= capacity {
			v.result.AtLimit++
		}
		if all <= capacity {
			return
		}
		v.result.Over = max(v.result.Over, float64(all-capacity)/float64(capacity))
		since := to - l.Window
		granted := capacity * int64(1+w.lossesIn(since-min(l.Window/2, 5*time.Second)-time.Second, to))
		shares := int64(0)
		if c.mode == stint.FailLocal {
			faults, died := w.faultsIn(since-settling, to, s.slot)
			if part := (capacity + int64(v.fleet.processes) - 1) / int64(v.fleet.processes); !c.own || died {
				shares = int64(faults) * part * int64(v.fleet.processes)
			}
		}
		if all-without > granted || all > granted+shares {
			v.object(n, s, "over: %d admitted in %v, %d of them without the server, want at most %d and %d",
				all, l, without, granted, shares)
		}
	})
}

// deny holds a denial by the server to what was asked for.
func (v *watch) deny(w *world, n int, s *shot, at time.Duration) {
	full := w.setIn(at-2*time.Minute, at)
	v.each(s, func(l *stint.Limit, number, subject int) {
		if full = full || l.Leased; full {
			return
		}
		asked := v.asked
		if w.lossesIn(at-l.Window-settling, at) > 0 {
			asked = v.longer
		}
		all, _ := asked.Admit(number, subject, at, at, 0, false)
		full = all > l.Capacity() || w.lossesIn(at-2*(l.Window+settling), at) > 1
	})
	if !full {
		v.object(n, s, "room: denied although all that was asked for fits")
	}
}

// withdraw notes that what was admitted may be given back from now on, or that it was not.
func (v *watch) withdraw(w *world, s *shot, from time.Duration, n int64, degraded bool) {
	v.each(s, func(l *stint.Limit, number, subject int) {
		shift := time.Duration(0)
		if l.Algorithm == stint.AlgorithmFixed {
			shift = time.Duration(w.server.ahead.Load())
		}
		v.admitted.Withdraw(number, subject, from+shift-resolution, n, degraded)
	})
}

// lossesIn is how often the server lost its state, or its clock was set, in some time.
func (w *world) lossesIn(from, to time.Duration) (n int) {
	for _, l := range w.history.losses {
		if l.from <= to && l.to >= from {
			n++
		}
	}
	if w.setIn(from, to) {
		n++
	}
	return n
}

// setIn reports whether the server's clock was set in some time.
func (w *world) setIn(from, to time.Duration) bool {
	return slices.ContainsFunc(w.plan.clock, func(c clockStep) bool { return c.at <= to && c.at >= from })
}

// faultsIn is how many faults there were in some time, and whether one ended a slot's process.
func (w *world) faultsIn(from, to time.Duration, slot int) (n int, died bool) {
	for i := range w.plan.faults {
		if f := &w.plan.faults[i]; f.from <= to && f.to >= from {
			n++
			died = died || f.kind == die && f.slot == slot
		}
	}
	return n, died
}

// happens lets a fleet happen, in a bubble.
func (f *fleet) happens() outcomes {
	v := newWatch(f)
	p := f.plan()
	w := p.world()
	w.watch = v
	for slot := range w.slots {
		w.bear(slot)
	}
	w.run()
	w.work.Wait()
	w.end()
	return v.result
}

// shoot lets a caller of a fleet ask, of a process that lives.
func (w *world) shoot(n int, s shot) {
	var i *instance
	for k := 0; i == nil && k < len(w.slots); k++ {
		i = w.slots[(s.slot+k*len(far))%len(w.slots)]
	}
	if i == nil {
		return
	}
	w.work.Go(func() { w.shootAt(i, n, &s) })
}

func (w *world) shootAt(i *instance, n int, s *shot) {
	i.client.pause()
	v, c := w.watch, &w.watch.crowds[s.crowd]
	r := stint.Request{Claims: make([]stint.Claim, len(c.levels)), Failure: &stint.FailurePolicy{Mode: c.mode}}
	for k := range c.levels {
		r.Claims[k] = stint.Claim{Subject: subjectName(s.crowd, k, s.user/c.levels[k].users),
			Limits: c.levels[k].limits, Cost: s.cost}
	}
	from := w.now()
	w.mu.Lock()
	v.ask(s, from)
	w.mu.Unlock()
	d, err := i.limiter.Take(context.Background(), r)
	if i.isDead() {
		return
	}
	late := i.client.takeLate()
	w.mu.Lock()
	for _, wrong := range late {
		v.object(n, s, "late: %s", wrong)
	}
	to := w.now()
	v.result.Decisions++
	for int(to/time.Second) >= len(v.result.Seconds) {
		v.result.Seconds = append(v.result.Seconds, second{})
	}
	now := &v.result.Seconds[to/time.Second]
	if d.Degraded {
		v.result.Degraded++
		now.Degraded++
	}
	if d.Degraded || err != nil {
		v.ask(s, to) // until it is settled it may count twice
	}
	switch {
	case err != nil:
		v.result.Failed++
	case d.Allowed:
		v.result.Admitted++
		now.Admitted++
		v.result.Units += s.cost
		v.admit(w, n, s, from, to, d.Degraded)
	default:
		now.Denied++
		if v.result.Denied++; !d.Degraded {
			v.deny(w, n, s, to)
		}
	}
	w.mu.Unlock()
	if s.settle == 0 || err != nil || !d.Allowed {
		return
	}
	time.Sleep(s.settle)
	if i.isDead() {
		return
	}
	i.client.pause()
	back := max(0, s.cost-s.truth)
	w.mu.Lock()
	v.withdraw(w, s, from, back, d.Degraded)
	w.mu.Unlock()
	done, err := i.limiter.Settle(context.Background(), d, s.truth)
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.result.Refunded++; err == nil && !done.Changed {
		v.withdraw(w, s, from, -back, d.Degraded)
	}
}

func subjectName(crowd, level, number int) string {
	return string(binary.AppendUvarint([]byte{'a' + byte(crowd), 'a' + byte(level)}, uint64(number)))
}

func (o *outcomes) String() string {
	per := func(n int) float64 { return 100 * float64(n) / float64(max(1, o.Decisions)) }
	return fmt.Sprintf("%d decisions: %.1f%% admitted, %.1f%% denied, %.2f%% failed; %.2f%% without the server; "+
		"%d settled, %d full windows, %.0f calls per 1,000 decisions%s", o.Decisions, per(o.Admitted), per(o.Denied),
		per(o.Failed), per(o.Degraded), o.Refunded, o.AtLimit, 10*per(o.Calls),
		strings.Join(append([]string{""}, o.Wrong...), "\n"))
}
