package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint/internal/keypart"
	"github.com/stint-limiter/stint/internal/label"
)

// This file merges the lists of subjects of all processes. In reports, subjects have the names that
// the store uses: hashes if the store keeps no names. A process that knows a subject shows its
// name; other processes show the hash.

// named returns the name of a subject in reports. It returns "" if the subject is too long to be
// reported.
func (f *fleet) named(subject string) string {
	if len(subject) > longestKept {
		return ""
	}
	return f.store.StoredName(subject)
}

// ownWorst returns the subjects with the most denials in this process in the last ten seconds.
func (f *fleet) ownWorst(now time.Time) (list []listed) {
	for _, o := range f.m.offenders.worst(now) {
		subject, _ := f.m.names.subject(o.Ref)
		if name := f.named(subject); name != "" {
			list = append(list, listed{kind: kindOf(subject), name: name, rate: o.Rate, share: o.Share})
		}
	}
	return list
}

// ownTop returns the subjects with the most denials in this process in the last few minutes.
func (f *fleet) ownTop(now time.Time) (list []listed) {
	for kind, name := range offenderKinds {
		if name != policyKind {
			list = append(list, f.reported(topCounters(f.m.offenders.merge(kind, now), topSubjects))...)
		}
	}
	slices.SortStableFunc(list, func(a, b listed) int { return cmp.Compare(b.denied, a.denied) })
	return list
}

// reported converts the counters of subjects for a report. It omits subjects that are too long to
// be reported.
func (f *fleet) reported(counters []counter) (list []listed) {
	for _, c := range counters {
		if name := f.named(c.name); name != "" {
			list = append(list, listed{kind: kindOf(c.name), name: name, policy: c.note,
				denied: c.count, atLeast: c.seen})
		}
	}
	return list
}

// ownShadow returns the shadow reports of this process, except those without requests.
func (f *fleet) ownShadow(now time.Time) (list []shadowFacts) {
	reports := f.m.offenders.shadow
	for _, r := range reports.all() {
		snapshot := r.snapshot()
		s := shadowFacts{ShadowReport: r.show(&snapshot, f.m.names, reports.start, now, 0)}
		if s.Total.Requests == 0 {
			continue
		}
		s.Tier, s.Policy, s.Limits = r.name.tier, r.name.policy, r.limits
		s.top = f.reported(topCounters(snapshot.top, topSubjects))
		list = append(list, s)
	}
	return list
}

// listOf calls the given function for every other process that is not silent, and returns the
// results as one list.
func (f *fleet) listOf(of func(*peer) []listed) (all []listed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.each(func(p *peer) { all = append(all, of(p)...) })
	return all
}

func topOf(p *peer) []listed { return p.facts.top }

// top returns the n offenders of a kind with the most denials, or all if there are fewer. From
// other processes, it includes only the subjects that they have denied most often.
func (f *fleet) top(kind string, n int, now time.Time) []Offender {
	k := slices.Index(offenderKinds[:], kind)
	if k < 0 {
		return nil
	}
	others := slices.DeleteFunc(f.listOf(topOf), func(l listed) bool { return l.kind != k })
	return f.m.offenders.rank(kind, f.merge(f.m.offenders.merge(k, now), others), n, now)
}

// merge adds counts from other processes to the counters in a list, and returns the list. A subject
// that has no counter gets one.
func (f *fleet) merge(all []counter, others []listed) []counter {
	if len(others) == 0 {
		return all
	}
	at := make(map[string]int, len(all))
	for i := range all {
		at[f.named(all[i].name)] = i
	}
	for _, l := range others {
		i, known := at[l.name]
		if !known {
			i = len(all)
			at[l.name] = i
			all = append(all, counter{name: l.name, note: l.policy})
		}
		all[i].count += l.denied
		all[i].seen += l.atLeast
	}
	return all
}

// worst returns the subjects with the most denials in the last ten seconds in all processes.
func (f *fleet) worst(now time.Time) []Offender {
	list := f.m.offenders.worst(now)
	known := map[string]bool{}
	for i := range list {
		if subject, ok := f.m.names.subject(list[i].Ref); ok {
			known[f.named(subject)] = true
			f.complete(&list[i], subject, now)
		}
	}
	for _, l := range f.listOf(worstOf) {
		if !known[l.name] {
			known[l.name] = true
			o := f.foreign(&l)
			f.complete(&o, l.name, now)
			list = append(list, o)
		}
	}
	slices.SortStableFunc(list, func(a, b Offender) int { return cmp.Compare(b.Rate*b.Share, a.Rate*a.Share) })
	return list[:min(len(list), worstSuspects)]
}

func worstOf(p *peer) []listed { return p.counts.worst }

// complete adds to o the counts and rates that other processes have reported for a subject. It
// reports whether there are any.
func (f *fleet) complete(o *Offender, subject string, now time.Time) (known bool) {
	name := f.named(subject)
	if keypart.IsHashed(subject) {
		name = subject
	}
	for _, l := range f.listOf(worstOf) {
		if l.name != name {
			continue
		}
		denied := o.Rate*o.Share + l.rate*l.share
		if o.Rate += l.rate; o.Rate > 0 {
			o.Share = denied / o.Rate
		}
		known = true
	}
	for _, l := range f.listOf(topOf) {
		if l.name != name {
			continue
		}
		o.Denied += l.denied
		o.AtLeast += l.atLeast
		o.Policy = cmp.Or(o.Policy, label.Line(l.policy))
		if len(o.Policies) == 0 {
			o.Policies = []string{label.Line(l.policy)}
		}
		known = true
	}
	if known && o.First.IsZero() {
		o.First, o.Last = now.Add(-suspectSeconds*time.Second), now
	}
	return known
}

// foreign returns an offender for a subject that only other processes have denied recently.
func (f *fleet) foreign(l *listed) Offender {
	return Offender{Kind: offenderKinds[l.kind], Subject: f.m.names.label(l.name), Ref: f.m.names.ref(l.name)}
}

// shadow merges the shadow reports of other processes into list, the reports of this process. Each
// report then lists at most n subjects.
func (f *fleet) shadow(list []ShadowReport, n int) []ShadowReport {
	var others []shadowFacts
	f.mu.Lock()
	f.each(func(p *peer) { others = append(others, p.facts.shadow...) })
	f.mu.Unlock()
	for i := range others {
		s := others[i].shown()
		at := slices.IndexFunc(list, func(r ShadowReport) bool {
			return r.Tier == s.Tier && r.Policy == s.Policy && slices.Equal(r.Limits, s.Limits)
		})
		if at < 0 {
			if s.Recent.Requests == 0 {
				continue
			}
			at = len(list)
			list = append(list, ShadowReport{Tier: s.Tier, Policy: s.Policy, Limits: s.Limits, Since: s.Since,
				Top: []Offender{}})
		}
		list[at].add(&s)
		list[at].Top = f.addTop(list[at].Top, others[i].top, s.Policy, n)
	}
	sortShadow(list)
	return list
}

// addTop adds to top the subjects in others, which are from another process's shadow report on the
// same rule. It returns the n subjects with the most denials, or all if there are fewer. The
// argument policy is the rule's policy.
func (f *fleet) addTop(top []Offender, others []listed, policy string, n int) []Offender {
	at := map[string]int{}
	for i := range top {
		if subject, ok := f.m.names.subject(top[i].Ref); ok {
			at[f.named(subject)] = i
		}
	}
	for _, l := range others {
		i, known := at[l.name]
		if !known {
			i = len(top)
			o := f.foreign(&l)
			o.Policy = policy
			top = append(top, o)
		}
		top[i].Denied += l.denied
		top[i].AtLeast += l.atLeast
	}
	slices.SortStableFunc(top, func(a, b Offender) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Subject, b.Subject))
	})
	return top[:min(len(top), n)]
}

// shown converts the report for display. It omits the subjects.
func (s *shadowFacts) shown() ShadowReport {
	r := s.ShadowReport
	r.Tier, r.Policy, r.Limits, r.Processes = label.Line(s.Tier), label.Line(s.Policy), label.Lines(s.Limits), 1
	return r
}

// add adds the report of another process about the same rule. It assumes that both reports end with
// the same minute.
func (r *ShadowReport) add(s *ShadowReport) {
	if s.Since.Before(r.Since) {
		r.Since = s.Since
	}
	r.Total.add(&s.Total)
	r.Recent.add(&s.Recent)
	r.RecentSeconds = max(r.RecentSeconds, s.RecentSeconds)
	if missing := len(s.Minutes) - len(r.Minutes); missing > 0 {
		r.Minutes = append(make([]ShadowCounts, missing), r.Minutes...)
	}
	for i := range s.Minutes {
		r.Minutes[len(r.Minutes)-len(s.Minutes)+i].add(&s.Minutes[i])
	}
	r.Processes += s.Processes
}

// add adds the counts of another process. Both processes may have counted the same subjects, so add
// does not add up the numbers of subjects: it keeps the larger one, which is a lower bound.
func (c *ShadowCounts) add(d *ShadowCounts) {
	c.AtLeast = c.AtLeast || d.AtLeast || c.Subjects > 0 && d.Subjects > 0
	c.Requests += d.Requests
	c.Denied += d.Denied
	c.Subjects, c.Hit = max(c.Subjects, d.Subjects), max(c.Hit, d.Hit)
	c.Estimated = c.Estimated || d.Estimated
}
