package observe

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/policy"
)

// ShadowReport is about a tier or policy with limits in shadow. It shows the denials that these
// limits would cause if they were enforced. Such limits are checked only for requests that all
// enforced limits allow. If the store does not answer the check in time, the request counts as not
// denied.
type ShadowReport struct {
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	// Limits are the limits of the rule. A rule whose limits change gets a new report.
	Limits []string `json:"limits"`
	// Since is the time at which the report began. Total covers all requests since then.
	Since time.Time    `json:"since"`
	Total ShadowCounts `json:"total"`
	// Recent covers the last RecentSeconds: nine to ten minutes, or less if the report is newer.
	Recent        ShadowCounts `json:"recent"`
	RecentSeconds float64      `json:"recent_seconds"`
	// Minutes splits Recent into minutes, oldest first. The last minute is not complete.
	Minutes []ShadowCounts `json:"minutes"`
	// Top lists the subjects that the rule would have denied most often since the report began.
	Top []Offender `json:"top"`
	// Processes is the number of processes that the report covers. Other processes are covered only
	// while they run, with a delay of up to twelve seconds. Of the subjects that other processes
	// have counted, Top includes only those that would have been denied most often.
	Processes int `json:"processes"`
}

// ShadowCounts counts the requests and subjects that a rule in shadow was checked for, and those
// that it would have denied.
type ShadowCounts struct {
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	// Subjects is the number of distinct subjects. Hit is the number of subjects with at least one
	// request that would have been denied. Numbers up to 500 are exact; higher ones are estimates
	// with a standard error of 1.6%.
	Subjects int64 `json:"subjects"`
	Hit      int64 `json:"hit"`
	// Estimated reports whether Subjects or Hit is an estimate.
	Estimated bool `json:"estimated"`
	// AtLeast reports whether Subjects and Hit are lower bounds because several processes may have
	// counted the same subjects. Each is then the largest number that any one process has counted.
	AtLeast bool `json:"at_least,omitempty"`
}

// ShadowReports returns reports, each with up to n subjects, on the rules in shadow of the set,
// which may be nil, and on other rules that were checked in shadow in the last ten minutes. A
// process keeps at most 64 reports. The rules that would have denied the most requests in that time
// come first.
func (m *Monitor) ShadowReports(set *policy.Set, n int) []ShadowReport {
	now := time.Now()
	list := m.offenders.shadow.show(set, n, now)
	if f := m.fleet.Load(); f != nil {
		list = f.shadow(list, n)
	}
	return list
}

const (
	// shadowMinutes is the number of minutes that a report keeps.
	shadowMinutes = 10
	// shadowTop is the maximum number of subjects whose denials in shadow are counted individually.
	shadowTop = 100
	// shadowSeen is the maximum number of subjects that a report remembers as counted in the
	// current minute. It can look up these subjects without the lock.
	shadowSeen = 256
)

// shadowReport counts the requests that a rule in shadow was checked for, and those that it would
// have denied. Its memory is bounded: about 250 KB if the rule has many subjects, plus the names of
// the subjects in top. It is safe for concurrent use.
//
// Requests are counted without a lock. The lock guards the subjects. A request takes the lock only
// if it would have been denied, or if its subject may not yet have been counted in the current
// minute; see shadowSeen.
type shadowReport struct {
	name   shadowName
	limits []string
	since  time.Time
	first  int64 // the number of the minute in which the report began

	requests tally
	minute   atomic.Int64 // the number of the newest minute, changed with the lock held
	seen     [shadowSeen]atomic.Uint64

	mu    sync.Mutex
	total shadowRecord
	// minutes is indexed by the number of the minute modulo shadowMinutes. In each element, the
	// requests and denied fields hold the totals at the start of the minute.
	minutes [shadowMinutes]shadowRecord
	top     *sketch
}

// These constants are the indexes of the counters in shadowReport.requests.
const (
	shadowAll = iota
	shadowDenied
	shadowCounters
)

// shadowRecord counts the requests that a rule was checked for, and the requests that it would have
// denied. For each of the two, it also counts the distinct subjects.
type shadowRecord struct {
	requests, denied int64
	subjects, hit    distinct
}

func newShadowReport(name shadowName, limits []string, minute int64) *shadowReport {
	r := &shadowReport{
		name: name, limits: limits, since: time.Now(), first: minute,
		requests: newTally(shadowCounters), top: newSketch(shadowTop),
	}
	r.minute.Store(minute)
	return r
}

// add counts a request by a subject, given the hash of the subject and whether the rule would have
// denied the request.
func (r *shadowReport) add(in shard, n *names, subject string, hash uint64, denied bool) {
	const spread = 0x9e3779b97f4a7c15 // gives a subject a different mark in each minute
	r.requests.add(in, shadowAll, 1)
	mark, seen := hash+uint64(r.minute.Load())*spread, &r.seen[hash%shadowSeen]
	if denied {
		r.requests.add(in, shadowDenied, 1)
		subject = n.kept(subject)
	} else if seen.Load() == mark {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen.Store(mark)
	minute := &r.minutes[r.minute.Load()%shadowMinutes]
	r.total.subjects.add(hash)
	minute.subjects.add(hash)
	if denied {
		r.total.hit.add(hash)
		minute.hit.add(hash)
		r.top.add(subject, "", 1)
	}
}

// turn begins the given minute, and any minutes before it that were skipped. Each replaces the
// oldest minute.
func (r *shadowReport) turn(minute int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begin := r.sums()
	for m := max(r.minute.Load()+1, minute-shadowMinutes+1); m <= minute; m++ {
		r.minutes[m%shadowMinutes] = begin
		r.minute.Store(m)
	}
}

// sums returns a record with the requests and denials so far, and no subjects.
func (r *shadowReport) sums() shadowRecord {
	return shadowRecord{requests: r.requests.sum(shadowAll), denied: r.requests.sum(shadowDenied)}
}

// idle reports whether the report is older than its window and has counted no request within the
// window.
func (r *shadowReport) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.minute.Load() - shadowMinutes + 1
	return r.first < oldest && r.requests.sum(shadowAll) == r.minutes[oldest%shadowMinutes].requests
}

type shadowSnapshot struct {
	total   shadowRecord
	minutes []shadowRecord // oldest first
	oldest  int64          // the number of the oldest minute
	top     []counter
}

// snapshot copies the report. Requests may wait for the lock that it holds, so it does little else.
func (r *shadowReport) snapshot() shadowSnapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := r.minute.Load()
	s := shadowSnapshot{total: r.total.clone(), oldest: max(r.first, newest-shadowMinutes+1),
		top: slices.Clone(r.top.counters)}
	end := r.sums()
	s.total.requests, s.total.denied = end.requests, end.denied
	for m := newest; m >= s.oldest; m-- {
		begin := &r.minutes[m%shadowMinutes]
		minute := begin.clone()
		minute.requests, minute.denied = end.requests-begin.requests, end.denied-begin.denied
		s.minutes = append(s.minutes, minute)
		end.requests, end.denied = begin.requests, begin.denied
	}
	slices.Reverse(s.minutes)
	return s
}

// show converts a snapshot of the report for display, with up to n subjects. Minute 0 of every
// report begins at start.
func (r *shadowReport) show(s *shadowSnapshot, names *names, start, now time.Time, n int) ShadowReport {
	shown := ShadowReport{
		Tier: label.Line(r.name.tier), Policy: label.Line(r.name.policy), Limits: label.Lines(r.limits),
		Since: r.since, Total: s.total.counts(), Top: []Offender{}, Processes: 1,
	}
	var recent shadowRecord
	for i := range s.minutes {
		recent.merge(&s.minutes[i])
		shown.Minutes = append(shown.Minutes, s.minutes[i].counts())
	}
	shown.Recent = recent.counts()
	from := start.Add(time.Duration(s.oldest) * time.Minute)
	if r.since.After(from) {
		from = r.since
	}
	shown.RecentSeconds = max(0, now.Sub(from).Seconds())

	for _, c := range topCounters(s.top, n) {
		shown.Top = append(shown.Top, Offender{
			Kind: offenderKinds[kindOf(c.name)], Subject: names.label(c.name), Ref: names.ref(c.name),
			Denied: c.count, AtLeast: c.seen, Policy: shown.Policy,
		})
	}
	return shown
}

func (r *shadowRecord) clone() shadowRecord {
	return shadowRecord{requests: r.requests, denied: r.denied, subjects: r.subjects.clone(), hit: r.hit.clone()}
}

func (r *shadowRecord) merge(s *shadowRecord) {
	r.requests += s.requests
	r.denied += s.denied
	r.subjects.merge(&s.subjects)
	r.hit.merge(&s.hit)
}

// counts converts the record for display. Numbers of subjects may be estimated too high, so counts
// limits them to the numbers of requests: every subject has at least one request.
func (r *shadowRecord) counts() ShadowCounts {
	subjects := min(r.subjects.count(), r.requests)
	return ShadowCounts{
		Requests: r.requests, Denied: r.denied, Subjects: subjects, Hit: min(r.hit.count(), r.denied, subjects),
		Estimated: !r.subjects.exact() || !r.hit.exact(),
	}
}
