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
	if n := r.log.Late; n > r.log.Lines/20 {
		note("The log is not in the order of time: %s of %d came too late to be sorted. Replayed at the time of others they look like a burst: sort the log, or give it more slack, before relying on the rest.", plural(n, "line"), r.log.Lines)
	}
	if r.log.Limited > 0 {
		note("%s of the log got the answer 429 back then: such are replayed like all others, and callers who heed Retry-After sent fewer than they would have.", plural(r.log.Limited, "request"))
	}
	if r.noClient > 0 {
		note("%s came without a client address: where that tells callers apart, such share one subject.", plural(r.noClient, "request"))
	}
	if concurrent(r.options.Set) || r.options.Against != nil && concurrent(r.options.Against) {
		note("Logs do not say how long requests overlap: limits on concurrency saw one request at a time.")
	}
	if r.court.unsettled || r.against != nil && r.against.unsettled {
		note("Some costs are settled by a header of the response, which logs do not have: such requests are charged what they cost at first.")
	}
	for i, o := range []*Outcome{&result.Outcome, result.Against} {
		if o == nil {
			continue
		}
		by := [...]string{"", " So it is by the other configuration."}[i]
		if n := o.Subjects.Others.Requests; n > 0 {
			note("There are more than %s: those beyond sent %s, which had to be counted together.%s", plural(int64(o.Subjects.Cap), "subject"), plural(n, "request"), by)
		}
		if n := o.Subjects.Forgotten; n > 0 {
			note("For want of memory the store forgot %s of subjects, those with the most left of their limits: somewhat more may be shown as allowed than would have been.%s", plural(n, "count"), by)
		}
	}
	return notes
}

// plural is a number of things whose name takes an s.
func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
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
