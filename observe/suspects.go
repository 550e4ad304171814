package observe

import (
	"cmp"
	"container/list"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint/internal/label"
	"github.com/stint-limiter/stint/policy"
)

const (
	// maxSuspects is the maximum number of subjects kept. suspectLife is the time for which a
	// subject is kept after its last denial.
	maxSuspects = 4096
	suspectLife = time.Hour
	// suspectSeconds is the period over which rates are computed.
	suspectSeconds = 10
	// maxSuspectPolicies is the maximum number of policies counted for a suspect.
	maxSuspectPolicies = 4
	// worstSuspects is the maximum number of suspects in a tick.
	worstSuspects = 3
)

// suspects keeps details of the subjects that were denied most recently: the rate of their
// requests, the share of these requests that was denied, the times of the first and the last
// denial, and the policies that denied them. If very many subjects attack, the subjects that are
// denied most often stay, because they are denied again before others replace them.
//
// The mutex of offenders guards all fields except known.
type suspects struct {
	names *names
	// known holds the suspects at the last tick, by name. Allowed requests are counted only for
	// them.
	known atomic.Pointer[map[string]*suspect]

	each    list.List // of *suspect, the most recently denied first
	byName  map[string]*list.Element
	changed bool // whether the suspects have changed since known was stored
	ticks   int
	// at holds the times of the last ticks. Tick n is at index n % len(at).
	at [suspectSeconds + 1]time.Time
}

type suspect struct {
	name        string
	first, last time.Time // times of the first and the last denial
	denied      int64
	allowed     atomic.Int64
	// banned counts the denials by a ban since the subject was last allowed or last denied by a limit.
	banned   atomic.Int64
	policies []policyDenials
	// past holds the totals at the last ticks, indexed like suspects.at.
	past [suspectSeconds + 1]struct{ allowed, denied int64 }
}

type policyDenials struct {
	name   string
	denied int64
}

// denied counts n denials of a subject by a policy or, if banned is true, by a ban.
func (s *suspects) denied(name, policy string, banned bool, now time.Time, n int64) {
	e := s.byName[name]
	if e == nil {
		e = s.add(name, now)
	}
	s.each.MoveToFront(e)
	who := e.Value.(*suspect)
	who.last = now
	who.denied += n
	if banned {
		who.banned.Add(n)
		return
	}
	who.banned.Store(0)
	i := slices.IndexFunc(who.policies, func(p policyDenials) bool { return p.name == policy })
	if i < 0 && len(who.policies) < maxSuspectPolicies {
		i = len(who.policies)
		who.policies = append(who.policies, policyDenials{name: policy})
	}
	if i >= 0 {
		who.policies[i].denied += n
	}
}

// add adds a suspect. If there are too many, it reuses the entry of the suspect whose last denial
// is the oldest. Until the next tick, the allowed requests of the old suspect are counted for the
// new one.
func (s *suspects) add(name string, now time.Time) *list.Element {
	var e *list.Element
	if s.each.Len() < maxSuspects {
		e = s.each.PushFront(&suspect{})
	} else {
		e = s.each.Back()
		delete(s.byName, e.Value.(*suspect).name)
	}
	who := e.Value.(*suspect)
	who.name, who.first, who.denied, who.policies = name, now, 0, who.policies[:0]
	who.allowed.Store(0)
	who.banned.Store(0)
	clear(who.past[:])
	s.byName[name] = e
	s.changed = true
	return e
}

// allowed counts an allowed request for each of its subjects that is a suspect. It is called on the
// request path, so it takes no lock.
func (s *suspects) allowed(results []policy.Result) {
	known := s.known.Load()
	if known == nil {
		return
	}
	for i := range results {
		if i > 0 && results[i].Subject == results[i-1].Subject {
			continue
		}
		if who := (*known)[s.names.kept(results[i].Subject)]; who != nil {
			who.allowed.Add(1)
			if who.banned.Load() != 0 {
				who.banned.Store(0)
			}
		}
	}
}

// tick is called once a second. It removes suspects that were last denied too long ago, stores the
// totals of the others, and updates known.
func (s *suspects) tick(now time.Time) {
	for e := s.each.Back(); e != nil && now.Sub(e.Value.(*suspect).last) > suspectLife; e = s.each.Back() {
		delete(s.byName, s.each.Remove(e).(*suspect).name)
		s.changed = true
	}
	s.ticks++
	s.at[s.ticks%len(s.at)] = now
	for e := s.each.Front(); e != nil; e = e.Next() {
		who := e.Value.(*suspect)
		past := &who.past[s.ticks%len(who.past)]
		past.allowed, past.denied = who.allowed.Load(), who.denied
	}
	if !s.changed {
		return
	}
	s.changed = false
	if s.each.Len() == 0 {
		s.known.Store(nil)
		return
	}
	known := make(map[string]*suspect, s.each.Len())
	for name, e := range s.byName {
		known[name] = e.Value.(*suspect)
	}
	s.known.Store(&known)
}

// recent returns the numbers of allowed and denied requests of a suspect in the last ten seconds.
func (s *suspects) recent(who *suspect) (allowed, denied int64) {
	past := who.past[(s.ticks+1)%len(who.past)]
	return who.allowed.Load() - past.allowed, who.denied - past.denied
}

// worst returns the names of up to worstSuspects suspects, those with the most denials in the last
// ten seconds.
func (s *suspects) worst() []string {
	type counted struct {
		name   string
		denied int64
	}
	var all []counted
	for e := s.each.Front(); e != nil; e = e.Next() {
		who := e.Value.(*suspect)
		_, denied := s.recent(who)
		if denied == 0 {
			break // all further suspects were last denied even earlier
		}
		all = append(all, counted{who.name, denied})
	}
	slices.SortFunc(all, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(a.name, b.name))
	})
	names := make([]string, min(len(all), worstSuspects))
	for i := range names {
		names[i] = all[i].name
	}
	return names
}

// describe sets the fields of o that are known only for suspects. It reports whether the subject is
// a suspect.
func (s *suspects) describe(name string, o *Offender, now time.Time) bool {
	e := s.byName[name]
	if e == nil {
		return false
	}
	who := e.Value.(*suspect)
	allowed, denied := s.recent(who)
	if all := allowed + denied; all > 0 {
		since := s.at[(s.ticks+1)%len(s.at)]
		if who.first.After(since) {
			since = who.first
		}
		seconds := max(now.Sub(since).Seconds(), 1)
		o.Rate, o.Share = float64(all)/seconds, float64(denied)/float64(all)
	}
	o.First, o.Last, o.Banned = who.first, who.last, who.banned.Load()
	slices.SortStableFunc(who.policies, func(a, b policyDenials) int { return cmp.Compare(b.denied, a.denied) })
	for _, p := range who.policies {
		o.Policies = append(o.Policies, label.Line(p.name))
	}
	return true
}
