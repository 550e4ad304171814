package simulate

import (
	"fmt"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/figures"
	"github.com/stint-limiter/stint/policy"
)

// warning returns a warning if more than a twentieth of the lines could not be read, and ""
// otherwise.
func warning(log *Log) string {
	if log.Malformed <= log.Lines/20 {
		return ""
	}
	how := "partly"
	switch {
	case log.Malformed == log.Lines:
		how = "completely"
	case log.Malformed > log.Lines/2:
		how = "mostly"
	}
	return fmt.Sprintf("The log is %s unreadable: %s of %s (%s) could not be read. The results cover only the other lines.",
		how, figures.Number(log.Malformed), plural(log.Lines, "line"),
		figures.Percent(float64(log.Malformed)/float64(log.Lines)))
}

func (r *run) notes(result *Result) []string {
	notes := []string{}
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if n := r.log.Late; n > r.log.Lines/20 {
		note("The log is not in chronological order: %s of %s came too late to be sorted. They were replayed at the "+
			"time of other lines, so they look like a burst. Sort the log or allow more slack before you rely on "+
			"these results.", plural(n, "line"), figures.Number(r.log.Lines))
	}
	for _, d := range r.log.Damaged {
		note("%s could not be read to its end: %s. The results include the %s before that point.",
			d.File, d.Reason, plural(d.Lines, "line"))
	}
	if r.users > 0 {
		note("The user in the log identifies the callers of %s. Make sure that the logging server authenticated it: "+
			"nginx logs as $remote_user whatever a client sends, unless auth_basic is on, so that clients could choose "+
			"their subjects.", plural(r.users, "request"))
	}
	if r.log.Limited > 0 {
		note("%s in the log got the response 429. Such requests are replayed like all others, and callers that "+
			"honored Retry-After sent fewer requests than they would have otherwise.", plural(r.log.Limited, "request"))
	}
	if r.noClient > 0 {
		note("%s came without a client address. Where the address identifies callers, such requests share one "+
			"subject.", plural(r.noClient, "request"))
	}
	if n := r.log.HostNames; n > 0 {
		note("%s came from clients that the log names by host name instead of address. Here each name is a separate "+
			"subject. A limiter sees addresses: several names may share one, and rules for addresses do not match "+
			"names. Log addresses (in Apache: HostnameLookups Off) to be sure.", plural(n, "request"))
	}
	if hasConcurrency(r.options.Set) || r.options.Against != nil && hasConcurrency(r.options.Against) {
		note("Logs do not show which requests overlapped: concurrency limits saw one request at a time.")
	}
	if r.replayer.unsettled || r.against != nil && r.against.unsettled {
		note("Some costs are settled by a header of the response, which logs do not have: " +
			"such requests are charged their initial cost.")
	}
	r.tokens.notes(note)
	for i, o := range []*Outcome{&result.Outcome, result.Against} {
		if o == nil {
			continue
		}
		by := [...]string{"", " This is with the other configuration."}[i]
		if n := o.Subjects.Others.Requests; n > 0 {
			note("There are more than %s. The rest sent %s, which are counted together.%s",
				plural(int64(o.Subjects.Cap), "subject"), plural(n, "request"), by)
		}
		if n := o.Subjects.Forgotten; n > 0 {
			note("The store ran out of memory and dropped %s of subjects, those furthest from their limits first. "+
				"Some requests may be shown as allowed that would have been denied.%s", plural(n, "count"), by)
		}
	}
	return notes
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%s %ss", figures.Number(n), noun)
}

func hasConcurrency(set *policy.Set) bool {
	return slices.ContainsFunc(set.Rules(), func(rule *policy.Rule) bool {
		return slices.ContainsFunc(rule.Limits, func(l stint.Limit) bool {
			return l.Algorithm == stint.AlgorithmConcurrency
		})
	})
}
