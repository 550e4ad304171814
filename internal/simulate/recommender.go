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

// recommender measures what subjects would use if nothing were ever denied, and recommends limits
// that fit. Two limits measure each window, with the algorithm that would enforce it:
//
//   - The large limit never denies. Its log has slices, like that of every limit above
//     stint.Resolution: room comes back late, and that counts.
//   - The exact limit is as large as a limit without slices can be. Its count is exact until it is
//     exceeded. After that it is no longer needed: a subject that needs more needs a limit with
//     slices.
//
// Neither has a burst. What the bucket of a burst needs depends on the maximum: a meter computes
// it.
type recommender struct {
	store       *memorystore.Store
	guard       *policy.Guard
	scale       scale
	rules       []ruleWindows // by index of the rule
	maxSubjects int
	subjects    map[string]*subjectNeeds
	meters      map[meterKey]*meter

	// The request being measured:
	verdict policy.Verdict
	request stint.Request
	needs   [][]need // by claim
}

// ruleWindows are the windows to measure for one rule.
type ruleWindows struct {
	windows []*window
	limits  map[uint][]stint.Limit // by the set of exceeded windows; see limitsFor
}

// window is a window to measure for one rule.
type window struct {
	Recommendation
	number       int // unique among all rules
	exactLimit   stint.Limit
	largeLimit   stint.Limit
	exact, large []int64 // requests by the maximum they needed, as an index of the scale
}

type meterKey struct {
	subject, scope string
	window         int
}

// subjectNeeds are the needs of a subject in the windows of each rule that applied to it.
type subjectNeeds struct {
	rules [][]need
	kept  bool // the subject is counted separately
}

// need is the smallest maximum of a window that would have admitted all requests of a subject.
type need struct {
	window       int // its number
	exact, large int64
	exceeded     bool // the exact limit was exceeded: exact is unknown
	kept         bool // the subject is counted separately
}

// maxWindows is the maximum number of windows for one rule: their limits, two each, are one claim.
const maxWindows = stint.MaxLimits / 2

func newRecommender(o *Options, c *clock) (*recommender, error) {
	store, err := newStore(o, c)
	if err != nil {
		return nil, err
	}
	r := &recommender{
		store: store, scale: newScale(), maxSubjects: o.MaxSubjects,
		subjects: make(map[string]*subjectNeeds), meters: make(map[meterKey]*meter),
	}
	number := 0
	for _, rule := range o.Set.Rules() {
		windows := windowsOf(rule, o)
		if len(windows) > maxWindows {
			r.close()
			return nil, fmt.Errorf("%q has %d pairs of window and burst to recommend limits for; want at most %d",
				rule.Name(), len(windows), maxWindows)
		}
		for _, w := range windows {
			w.number = number
			w.exact, w.large = make([]int64, len(r.scale)), make([]int64, len(r.scale))
			number++
		}
		r.rules = append(r.rules, ruleWindows{windows: windows, limits: make(map[uint][]stint.Limit)})
	}
	r.guard, err = policy.NewGuard(settlingStore{Timeless{store}, r}, o.Set,
		policy.GuardConfig{Logger: slog.New(slog.DiscardHandler), EnforceAll: true})
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *recommender) close() { _ = r.store.Close() }

// windowsOf returns what to measure for a rule: the windows and bursts of its limits, and those of
// the options.
func windowsOf(rule *policy.Rule, o *Options) []*window {
	var list []*window
	add := func(length time.Duration, burst int64, configured *stint.Limit) {
		same := func(w *window) bool { return time.Duration(w.Window) == length && w.Burst == burst }
		if slices.ContainsFunc(list, same) {
			return
		}
		name := fmt.Sprintf("%d-%d", rule.Index, burst) // limits of different windows may share a name
		list = append(list, &window{
			Recommendation: Recommendation{
				Policy: rule.Policy, Tier: rule.Tier, Costs: rule.Costs,
				Window: Duration(length), Burst: burst, Configured: configured,
			},
			exactLimit: stint.Per(stint.Resolution/burst*burst, length).WithName(name),
			largeLimit: stint.Per(largestMax*burst, length).WithName(name + "-large"),
		})
	}
	for i := range rule.Limits {
		l := &rule.Limits[i]
		switch l.Algorithm {
		case stint.AlgorithmConcurrency: // a log does not show which requests overlap
		case stint.AlgorithmSliding:
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

// limit returns the window's limit with a maximum, or with the next larger one whose burst can be
// counted exactly.
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
