package simulate

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// demand measures how much subjects ask for: what they would use if nothing were ever denied. Every window is counted
// by two limits, of the algorithm that would enforce it. One is so large that it never denies. Its log has slices, as
// that of every limit above stint.Resolution: room comes back late, which counts. The other is as large as a limit that
// has no slices can be, and tells the exact count for as long as that is not exceeded; from then on it does not matter, for
// whoever needs more needs a limit with slices. Neither has a burst: how much its meter needs depends on the maximum, and
// is computed apart.
type demand struct {
	store   *memorystore.Store
	refills map[counter]*refill
	guard   *policy.Guard
	scale   *scale
	rules   []measured // by index of the rule
	most    int
	needs   map[string]*needs // by subject

	// Of the request that is being counted:
	verdict policy.Verdict
	request stint.Request
	lists   [][]need // of its claims
}

// window is one to measure, of one rule.
type window struct {
	Recommendation
	number       int // among all
	exactLimit   stint.Limit
	largeLimit   stint.Limit
	exact, large []int64 // how many requests came at which use, by place in the scale
}

// counter is where a window is counted.
type counter struct {
	subject, scope string
	window         int
}

// needs are the smallest maximums that would have admitted all of a subject's requests, of each window of each rule that
// applied to it.
type needs struct {
	rules [][]need
	kept  bool // the subject is told apart
}

type need struct {
	window       int
	exact, large int64
	over         bool // more than the exact limit admits; exact is then not known
	kept         bool // of a subject that is told apart
}

// maxWindows is how many windows of one rule are measured: with two limits each they are one claim.
const maxWindows = stint.MaxLimits / 2

func newDemand(o *Options, c *clock) (*demand, error) {
	store, err := newStore(o, c)
	if err != nil {
		return nil, err
	}
	d := &demand{store: store, scale: newScale(), most: o.MaxSubjects, needs: make(map[string]*needs), refills: make(map[counter]*refill)}
	number := 0
	for _, rule := range o.Set.Rules() {
		windows := windowsOf(rule, o)
		if len(windows) > maxWindows {
			d.close()
			return nil, fmt.Errorf("%q has %d pairs of window and burst to recommend limits for; want at most %d", rule.Name(), len(windows), maxWindows)
		}
		for _, w := range windows {
			w.number = number
			w.exact, w.large = make([]int64, len(d.scale.numbers)), make([]int64, len(d.scale.numbers))
			number++
		}
		d.rules = append(d.rules, measured{windows: windows, limits: make(map[uint]([]stint.Limit))})
	}
	d.guard, err = policy.NewGuard(settling{store, d}, o.Set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler), EnforceAll: true})
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *demand) close() { _ = d.store.Close() }

// windowsOf returns what to measure for a rule: the windows and bursts of its limits, and those asked for.
func windowsOf(rule *policy.Rule, o *Options) []*window {
	var list []*window
	add := func(length time.Duration, burst int64, configured *stint.Limit) {
		if slices.ContainsFunc(list, func(w *window) bool { return time.Duration(w.Window) == length && w.Burst == burst }) {
			return
		}
		w := &window{Recommendation: Recommendation{
			Policy: rule.Policy, Tier: rule.Tier, Costs: rule.Costs,
			Window: Duration(length), Burst: burst, Configured: configured,
		}}
		name := fmt.Sprintf("%d-%d", rule.Index, burst) // those of different lengths are told apart at once
		w.exactLimit = stint.Per(stint.Resolution/burst*burst, length).WithName(name)
		w.largeLimit = stint.Per(largestMax*burst, length).WithName(name + "-large")
		list = append(list, w)
	}
	for i := range rule.Limits {
		l := &rule.Limits[i]
		switch l.Algorithm {
		case stint.Concurrency: // how many are at once a log does not say
		case stint.Sliding:
			add(l.Window, l.Capacity()/max(l.Max, 1), l)
		default:
			add(l.Window, 1, l)
		}
	}
	for _, length := range o.Windows {
		for _, burst := range o.Bursts {
			add(length, burst, nil)
		}
	}
	return list
}

// limit is the limit of the window with that maximum, or the next larger one whose burst can be counted exactly.
func (w *window) limit(max int64) stint.Limit {
	l := stint.Per(max, time.Duration(w.Window))
	if w.Burst == 1 {
		return l
	}
	for range 256 {
		if burst := l.WithBurst(w.Burst); burst.Validate() == nil {
			return burst
		}
		l.Max++
	}
	return stint.Per(max, time.Duration(w.Window)).WithBurst(w.Burst)
}
