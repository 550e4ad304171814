package simulate

import (
	"cmp"
	"strings"
)

// comparison counts how the decisions of two replayers differ. The caller of a request is the one
// that the first replayer finds or, if it finds none, the one that the second replayer finds.
type comparison struct {
	sum     Comparison
	max     int                // maximum number of subjects in changes
	changes map[string]*Change // by subject; only subjects that either replayer denies
}

func newComparison(maxSubjects int) *comparison {
	return &comparison{max: maxSubjects, changes: make(map[string]*Change)}
}

// add counts the last request, which both replayers have decided.
func (c *comparison) add(one, other *replayer) {
	denied, against := !one.verdict.Decision.Allowed, !other.verdict.Decision.Allowed
	switch {
	case denied && against:
		c.sum.DeniedByBoth++
	case denied:
		c.sum.OnlyDenied++
	case against:
		c.sum.OnlyAgainst++
	default:
		c.sum.AllowedByBoth++
		return
	}
	caller := cmp.Or(one.counter.caller, other.counter.caller)
	change := c.changes[caller]
	if change == nil {
		if len(c.changes) >= c.max {
			return
		}
		caller = strings.Clone(caller)
		change = &Change{Subject: cmp.Or(one.counter.hosts[one.counter.callerSubject], caller)}
		c.changes[caller] = change
	}
	if denied {
		change.Denied++
	}
	if against {
		change.Against++
	}
}

// result returns the comparison, with lists of at most n subjects.
func (c *comparison) result(n int) *Comparison {
	result := c.sum
	gain := newTop(n, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Against-b.Denied, a.Against-a.Denied), strings.Compare(a.Subject, b.Subject))
	})
	lose := newTop(n, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Denied-b.Against, a.Denied-a.Against), strings.Compare(a.Subject, b.Subject))
	})
	for _, change := range c.changes {
		switch {
		case change.Denied < change.Against:
			result.Gaining++
			gain.add(*change)
		case change.Denied > change.Against:
			result.Losing++
			lose.add(*change)
		}
	}
	result.Gain, result.Lose = gain.list, lose.list
	return &result
}
