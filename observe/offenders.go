package observe

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/label"
)

const (
	// Denials are counted over a window of eight to ten minutes. The window is divided into panes,
	// each of which covers a period of paneLength. offenderCounters is the maximum number of
	// subjects of a kind that are counted in a pane.
	offenderCounters = 1000
	panes            = 5
	paneLength       = 2 * time.Minute

	// floodRate is the highest number of denials per second at which every denial is counted. If
	// there are more denials in a second, then for the rest of that second and in the next one,
	// only one denial in floodShare is counted, with the weight floodShare. A subject that is
	// frequent among so many denials is also frequent among those that are counted.
	floodRate  = 20_000
	floodShare = 64
)

// offenderKinds lists the kinds of offenders. Those before the last two are prefixes of subjects.
var offenderKinds = [...]string{"ip", "user", "apikey", "session", "internal", "envoy", other, policyKind}

// policyKind is the kind of offenders that are policies. It is the last one in offenderKinds.
const policyKind = "policy"

// offenders finds the subjects and policies with the most denials in the last eight to ten minutes,
// in bounded memory.
//
// Every kind has one [sketch] per pane of the window. A subject with more than a thousandth of its
// kind's denials has more than a thousandth of those in some pane, so it has a counter in that pane
// and is found. [Offender.Denied] is too high by at most a thousandth of the kind's denials, and
// [Offender.AtLeast] is never too high. In a flood (see floodRate), the bound on Denied applies
// only to the denials that are counted.
//
// offenders is safe for concurrent use.
type offenders struct {
	names  *names
	shadow *shadowReports
	start  time.Time
	flood  atomic.Bool

	suspects suspects

	mu     sync.Mutex
	pane   int64 // the number of the newest pane; pane 0 begins at start
	kinds  [len(offenderKinds)][panes]*sketch
	second int64 // the second of the last denial or tick, counted from start
	came   int64 // number of denials in that second
}

func newOffenders(n *names) *offenders {
	return &offenders{names: n, shadow: newShadowReports(n), start: time.Now(),
		suspects: suspects{names: n, byName: map[string]*list.Element{}}}
}

// add counts a denial of a subject by a policy, which may be "", or by a ban. nth is the number of
// the denial in its series; in a flood, [chosen] uses it to decide whether to count the denial.
func (o *offenders) add(subject, policy string, banned bool, now time.Time, nth int64) {
	weight := int64(1)
	if o.flood.Load() {
		if !chosen(nth) {
			return
		}
		weight = floodShare
	}
	kind := kindOf(subject)
	subject = o.names.kept(subject)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.meter(now, weight)
	o.turn(now)
	o.sketch(kind).add(subject, policy, weight)
	o.suspects.denied(subject, policy, banned, now, weight)
	if policy != "" {
		o.sketch(len(offenderKinds)-1).add(policy, policy, weight)
	}
}

// chosen reports whether a denial is counted in a flood. It chooses one in floodShare numbers. It
// multiplies nth by the golden ratio, so that it chooses evenly from any regular sequence of
// numbers. It does not use a random number, because generating one would take longer than all other
// work on a denial in a flood.
func chosen(nth int64) bool { return uint32(nth)*0x9e3779b9 < 1<<32/floodShare }

// meter adds weight to the number of denials in the current second, and detects floods.
func (o *offenders) meter(now time.Time, weight int64) {
	if second := int64(now.Sub(o.start) / time.Second); second > o.second {
		o.flood.Store(second == o.second+1 && o.came > floodRate)
		o.second, o.came = second, 0
	}
	o.came += weight
	if o.came > floodRate {
		o.flood.Store(true)
	}
}

// tick is called once a second. Without it, a flood would not end until the next denial.
func (o *offenders) tick(now time.Time) {
	o.shadow.tick(now)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.meter(now, 0)
	o.suspects.tick(now)
}

// turn moves the window forward, and clears the panes that have left it.
func (o *offenders) turn(now time.Time) {
	pane := int64(now.Sub(o.start) / paneLength)
	for forgotten := 0; o.pane < pane && forgotten < panes; forgotten++ {
		o.pane = max(o.pane+1, pane-panes+1)
		for kind := range o.kinds {
			if s := o.kinds[kind][o.pane%panes]; s != nil {
				s.reset()
			}
		}
	}
}

func (o *offenders) sketch(kind int) *sketch {
	s := &o.kinds[kind][o.pane%panes]
	if *s == nil {
		*s = newSketch(offenderCounters)
	}
	return *s
}

// top returns the n offenders of a kind with the most denials, or all if there are fewer, in
// descending order of denials.
func (o *offenders) top(kind string, n int, now time.Time) []Offender {
	k := slices.Index(offenderKinds[:], kind)
	if k < 0 {
		return nil
	}
	return o.rank(kind, o.merge(k, now), n, now)
}

// rank converts counters of a kind to offenders: the n with the highest counts, or all if there are
// fewer, in descending order of counts.
func (o *offenders) rank(kind string, all []counter, n int, now time.Time) []Offender {
	counters := topCounters(all, n)
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make([]Offender, len(counters))
	for i, c := range counters {
		list[i] = o.show(c, kind, now)
	}
	return list
}

// show converts a counter to an offender for display. For a suspect, it also sets the fields that
// only suspects have.
func (o *offenders) show(c counter, kind string, now time.Time) Offender {
	shown := Offender{Kind: kind, Subject: label.Line(c.name), Denied: c.count, AtLeast: c.seen,
		Policy: label.Line(c.note)}
	if kind != policyKind {
		shown.Subject, shown.Ref = o.names.label(c.name), o.names.ref(c.name)
		o.suspects.describe(c.name, &shown, now)
	}
	return shown
}

// worst returns up to worstSuspects subjects, those with the most denials in the last ten seconds.
func (o *offenders) worst(now time.Time) []Offender {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turn(now)
	names := o.suspects.worst()
	list := make([]Offender, len(names))
	for i, name := range names {
		list[i] = o.of(name, now)
	}
	return list
}

// find returns what is known about a subject. It also reports whether the subject is known to have
// been denied in the last hour.
func (o *offenders) find(subject string, now time.Time) (Offender, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := o.names.kept(subject)
	o.turn(now)
	found := o.of(name, now)
	found.Ref = o.names.seal(subject)
	return found, o.suspects.byName[name] != nil
}

// of returns what is known about a subject, given its name as returned by [names.kept]. The caller
// holds the lock.
func (o *offenders) of(name string, now time.Time) Offender {
	c := counter{name: name}
	for i := range int64(panes) {
		s := o.kinds[kindOf(name)][(o.pane+1+i)%panes]
		if s == nil {
			continue
		}
		if at, ok := s.byName[name]; ok {
			c.count += s.counters[at].count
			c.seen += s.counters[at].seen
			c.note = s.counters[at].note
		} else {
			c.count += s.least()
		}
	}
	return o.show(c, offenderKinds[kindOf(name)], now)
}

// merge returns the counters of a kind, each summed over all panes.
func (o *offenders) merge(kind int, now time.Time) []counter {
	unseen := int64(0) // highest possible count of a subject without a counter in any pane
	found := map[string]int{}
	var all []counter
	for _, s := range o.snapshot(kind, now) {
		unseen += s.least
		for i := range s.counters {
			c := &s.counters[i]
			at, ok := found[c.name]
			if !ok {
				at = len(all)
				found[c.name] = at
				all = append(all, counter{name: c.name})
			}
			all[at].count += c.count - s.least
			all[at].seen += c.seen
			all[at].note = c.note
		}
	}
	for i := range all {
		all[i].count += unseen
	}
	return all
}

type counted struct {
	counters []counter
	least    int64
}

// snapshot returns copies of the panes of a kind, oldest first. Requests wait while it holds the
// lock, so it only copies.
func (o *offenders) snapshot(kind int, now time.Time) (all []counted) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turn(now)
	for i := range int64(panes) {
		if s := o.kinds[kind][(o.pane+1+i)%panes]; s != nil {
			all = append(all, counted{slices.Clone(s.counters), s.least()})
		}
	}
	return all
}

// kindOf returns the index of a subject's kind in offenderKinds.
func kindOf(subject string) int {
	prefix, _, ok := strings.Cut(subject, ":")
	if ok && prefix != policyKind {
		if i := slices.Index(offenderKinds[:], prefix); i >= 0 {
			return i
		}
	}
	return slices.Index(offenderKinds[:], other)
}
