package simulate

import (
	"cmp"
	"strings"
)

// comparison counts how two courts differ. A request is its caller's by the first of them, whoever the other takes for it.
type comparison struct {
	sum     Comparison
	most    int
	changed map[string]*Change // by subject; of those who were denied by either
}

func newComparison(most int) *comparison {
	return &comparison{most: most, changed: make(map[string]*Change)}
}

// add counts the last request of both.
func (c *comparison) add(one, other *court) {
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
	who := one.tally.who
	if who == "" { // nothing limits it here
		who = other.tally.who
	}
	change := c.changed[who]
	if change == nil {
		if len(c.changed) >= c.most {
			return
		}
		who = strings.Clone(who)
		change = &Change{Subject: who}
		c.changed[who] = change
	}
	if denied {
		change.Denied++
	}
	if against {
		change.Against++
	}
}

// result returns what was counted, with lists of at most n.
func (c *comparison) result(n int) *Comparison {
	result := c.sum
	gain := newTop(n, func(a, b *Change) int {
		return cmp.Or(cmp.Compare(b.Against-b.Denied, a.Against-a.Denied), strings.Compare(a.Subject, b.Subject))
	})
	lose := newTop(n, func(a, b *Change) int {
		return cmp.Or(cmp.Compare(b.Denied-b.Against, a.Denied-a.Against), strings.Compare(a.Subject, b.Subject))
	})
	for _, change := range c.changed {
		switch {
		case change.Denied < change.Against:
			result.Gaining++
			gain.add(change)
		case change.Denied > change.Against:
			result.Losing++
			lose.add(change)
		}
	}
	result.Gain, result.Lose = changes(gain.list), changes(lose.list)
	return &result
}

func changes(list []*Change) []Change {
	values := make([]Change, len(list))
	for i, change := range list {
		values[i] = *change
	}
	return values
}
