package simulate

import (
	"fmt"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/simulate/accesslog"
)

// result gathers what was found.
func (r *run) result(read accesslog.Stats) *Result {
	r.log.read(read)
	if r.log.Requests > 0 {
		r.log.First, r.log.Last = instant(r.first), instant(r.last)
	}
	result := &Result{Log: r.log, Outcome: r.court.tally.outcome(r.options.MaxSubjects), Recommendations: []Recommendation{}}
	if r.against != nil {
		against := r.against.tally.outcome(r.options.MaxSubjects)
		result.Against, result.Comparison = &against, r.compare.result(r.options.Top)
	}
	if r.demand != nil {
		result.Recommendations = r.demand.recommend(r.options.Recommend)
	}
	result.Notes = r.notes(result)
	return result
}

// read takes over what a source knows.
func (l *Log) read(s accesslog.Stats) {
	l.Lines, l.Malformed, l.Late, l.Bytes = s.Lines, s.Malformed, s.Late, s.Read
	l.Examples = []Example{}
	for _, e := range s.Examples {
		l.Examples = append(l.Examples, Example{File: e.File, Line: e.Line, Text: e.Text, Reason: e.Reason})
	}
}

// notes returns what a reader has to know.
func (r *run) notes(result *Result) []string {
	notes := []string{}
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if r.log.Limited > 0 {
		note("%d requests of the log were answered with 429 back then: they are replayed like all others, and callers who heed Retry-After sent fewer than they would have.", r.log.Limited)
	}
	if r.noClient > 0 {
		note("%d requests name no client address: where that tells callers apart they share one subject.", r.noClient)
	}
	if concurrent(r.options.Set) || r.options.Against != nil && concurrent(r.options.Against) {
		note("Logs do not say how long requests overlap: limits on concurrency saw one request at a time.")
	}
	if r.court.unsettled || r.against != nil && r.against.unsettled {
		note("Some costs are settled by a header of the response, which logs do not have: such requests are charged what they cost at first.")
	}
	for _, o := range []*Outcome{&result.Outcome, result.Against} {
		if o == nil {
			continue
		}
		if n := o.Subjects.Others.Requests; n > 0 {
			note("There are more than %d subjects: %d requests of those beyond were judged, and counted together.", o.Subjects.Cap, n)
		}
		if n := o.Subjects.Forgotten; n > 0 {
			note("For want of memory %d counts of subjects were forgotten, those with the most left of their limits: somewhat more may be shown as allowed than would have been.", n)
		}
	}
	return notes
}

// concurrent reports whether a set limits concurrency.
func concurrent(set *policy.Set) bool {
	for _, rule := range set.Rules() {
		for i := range rule.Limits {
			if rule.Limits[i].Algorithm == stint.Concurrency {
				return true
			}
		}
	}
	return false
}
