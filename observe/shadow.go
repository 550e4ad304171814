package observe

import (
	"time"

	"github.com/stint-limiter/stint/policy"
)

// ShadowReport is what a tier's or a policy's limits in shadow would have done, had they been
// enforced. They judge requests that everything else allowed. If the store did not answer about
// them in time, they are taken to have let the request through.
type ShadowReport struct {
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	// Limits are those of the rule. Other limits have a report of their own.
	Limits []string `json:"limits"`
	// Since is when the report began, and Total what happened since.
	Since time.Time    `json:"since"`
	Total ShadowCounts `json:"total"`
	// Recent is what happened in the last RecentSeconds: nine to ten minutes, or less for a younger
	// report.
	Recent        ShadowCounts `json:"recent"`
	RecentSeconds float64      `json:"recent_seconds"`
	// Minutes are those of Recent, oldest first. The last one is not over.
	Minutes []ShadowCounts `json:"minutes"`
	// Top are the subjects that would have been denied most since the report began.
	Top []Offender `json:"top"`
	// Processes is how many processes it counts. Of the others, it counts those that run, as of up
	// to twelve seconds ago, and of their subjects those that would have been denied most.
	Processes int `json:"processes"`
}

// ShadowCounts is how many requests and subjects a rule in shadow judged, and how many of them it
// would have denied.
type ShadowCounts struct {
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	// Subjects are different ones, and Hit those of them with a request that would have been
	// denied. Both are exact up to
	// 500. Beyond that they are estimates with a standard error of 1.6 %.
	Subjects int64 `json:"subjects"`
	Hit      int64 `json:"hit"`
	// Estimated says that one of them is an estimate.
	Estimated bool `json:"estimated"`
	// AtLeast says that several processes have judged subjects: Subjects and Hit are those of the
	// process with most, since it is not known how many of the others' are the same.
	AtLeast bool `json:"at_least,omitempty"`
}

// ShadowReports returns what rules in shadow would have done, those first that would have denied
// most, each with up to n subjects: the rules of a set, which may be nil, and those that judged
// something in the last minutes. There are at most 64.
func (m *Monitor) ShadowReports(set *policy.Set, n int) []ShadowReport {
	now := time.Now()
	list := m.offenders.shadow.show(set, n, now)
	if f := m.fleet.Load(); f != nil {
		list = f.shadow(list, n)
	}
	return list
}
