package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/policy"
)

// Trial is what a rule in shadow would have done, had it been enforced. It judges requests that all else allowed. One about
// which the store could not be asked in time is taken for one that it would have let through.
type Trial struct {
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	// Limits are those of the rule: another limit is another trial. It is empty for Envoy's, which are found by what they
	// would have denied, and are judged from then on.
	Limits []string `json:"limits"`
	// Since is when it began, and Total what happened since.
	Since time.Time `json:"since"`
	Total Reach     `json:"total"`
	// Recent is what happened in the last RecentSeconds: nine to ten minutes, or less if it has not been on for so long.
	Recent        Reach   `json:"recent"`
	RecentSeconds float64 `json:"recent_seconds"`
	// Minutes are those of Recent, oldest first. The last goes on.
	Minutes []TrialMinute `json:"minutes"`
	// Top are those who would have been denied most since it began.
	Top []Offender `json:"top"`
}

// Reach is how many requests and subjects a rule judged, and how many of them it would have denied.
type Reach struct {
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	// Subjects are different ones, and Hit those of them with a request that would have been denied. Both are exact up to 500.
	// Beyond that they are estimates with a standard error of 1.6 %.
	Subjects int64 `json:"subjects"`
	Hit      int64 `json:"hit"`
	// Estimated says that one of them is.
	Estimated bool `json:"estimated"`
}

// TrialMinute is a minute of a trial.
type TrialMinute struct {
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
}

// Trials returns what rules in shadow would have done, those first that would have denied most, each with up to n subjects:
// the rules of a set, which may be nil, and those that judged something in the last minutes. There are at most 64.
func (m *Monitor) Trials(set *policy.Set, n int) []Trial {
	return m.offenders.trials.report(set, n, time.Now())
}

// report is [Monitor.Trials].
func (ts *trials) report(set *policy.Set, n int, now time.Time) []Trial {
	inForce := map[*trial]bool{}
	if set != nil {
		for _, c := range ts.docket(set).cases {
			if c != nil {
				inForce[c.trial] = true
			}
		}
	}
	var list []Trial
	for _, t := range ts.all() {
		r := ts.told(t, n, now)
		if inForce[t] || r.Recent.Requests > 0 {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Trial) int {
		return cmp.Or(
			cmp.Compare(b.Recent.Denied, a.Recent.Denied), cmp.Compare(b.Total.Denied, a.Total.Denied),
			cmp.Compare(b.Total.Requests, a.Total.Requests), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Tier, b.Tier),
			slices.Compare(a.Limits, b.Limits),
		)
	})
	return list
}

// told makes a trial fit to be shown.
func (ts *trials) told(t *trial, n int, now time.Time) Trial {
	s := t.snapshot()
	r := Trial{
		Tier: label.Line(t.name.tier), Policy: label.Line(t.name.policy), Limits: []string{},
		Since: t.since, Total: s.total.reach(), Top: []Offender{},
	}
	for _, limit := range t.limits {
		r.Limits = append(r.Limits, label.Line(limit))
	}
	var recent record
	for i := range s.minutes {
		recent.merge(&s.minutes[i])
		r.Minutes = append(r.Minutes, TrialMinute{s.minutes[i].requests, s.minutes[i].denied})
	}
	r.Recent = recent.reach()
	from := ts.start.Add(time.Duration(s.oldest) * time.Minute)
	if t.since.After(from) {
		from = t.since
	}
	r.RecentSeconds = max(0, now.Sub(from).Seconds())

	slices.SortFunc(s.top, func(a, b slot) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(b.seen, a.seen), strings.Compare(a.name, b.name))
	})
	for _, c := range s.top[:min(max(n, 0), len(s.top))] {
		r.Top = append(r.Top, Offender{
			Kind: offenderKinds[kindOf(c.name)], Subject: ts.names.label(c.name), Ref: ts.names.ref(c.name),
			Denied: c.count, AtLeast: c.seen, Policy: r.Policy,
		})
	}
	return r
}
