package observe

import (
	"time"

	"github.com/stint-limiter/stint/policy"
)

// ShadowReport shows what the limits in shadow of a tier or policy would have done if enforced.
// They judge requests that everything else allowed. If the store did not answer about them in time,
// the report counts the request as not denied.
type ShadowReport struct {
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	// Limits are the limits of the rule. A rule whose limits change gets a new report.
	Limits []string `json:"limits"`
	// Since is when the report began. Total counts everything since then.
	Since time.Time    `json:"since"`
	Total ShadowCounts `json:"total"`
	// Recent covers the last RecentSeconds: nine to ten minutes, or less for a younger report.
	Recent        ShadowCounts `json:"recent"`
	RecentSeconds float64      `json:"recent_seconds"`
	// Minutes splits Recent into minutes, oldest first. The last one is not complete.
	Minutes []ShadowCounts `json:"minutes"`
	// Top lists the subjects that would have been denied most since the report began.
	Top []Offender `json:"top"`
	// Processes is the number of processes that the report covers. It covers other processes only
	// while they run, with a delay of up to twelve seconds, and of their subjects only those that
	// would have been denied most.
	Processes int `json:"processes"`
}

// ShadowCounts counts the requests and subjects that a rule in shadow judged, and those that it
// would have denied.
type ShadowCounts struct {
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	// Subjects is the number of distinct subjects, and Hit the number of those with a request that
	// would have been denied. Both are exact up to 500. Above that they are estimates with a
	// standard error of 1.6 %.
	Subjects int64 `json:"subjects"`
	Hit      int64 `json:"hit"`
	// Estimated reports whether Subjects or Hit is an estimate.
	Estimated bool `json:"estimated"`
	// AtLeast reports whether several processes have judged subjects. Subjects and Hit are then
	// lower bounds: the numbers of the process with the most, because different processes may have
	// judged the same subjects.
	AtLeast bool `json:"at_least,omitempty"`
}

// ShadowReports returns at most 64 reports on rules in shadow, those that would have denied the
// most first, each with up to n subjects. It reports on the rules in shadow of set, which may be
// nil, and on those that judged a request in the last minutes.
func (m *Monitor) ShadowReports(set *policy.Set, n int) []ShadowReport {
	now := time.Now()
	list := m.offenders.shadow.show(set, n, now)
	if f := m.fleet.Load(); f != nil {
		list = f.shadow(list, n)
	}
	return list
}
