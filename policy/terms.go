package policy

import (
	"cmp"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/tokens"
)

// terms are the settings that apply to a request as a whole, even if several policies match it. The
// bans come from the tier. Each other setting comes from the first matching policy that sets it, or
// else is the default of the tier or the set.
type terms struct {
	cost    int64
	costs   stint.Costs
	hold    time.Duration
	usage   *tokens.Rules
	after   *after
	id      *requestID
	failure *stint.FailurePolicy
	bans    *stint.BanPolicy

	hasCost, hasID, hasFailure bool
	atLeast                    bool // a true cost below the charge gives nothing back
}

func (o *terms) add(p *policy, f *facts) {
	if p.cost != nil && !o.hasCost {
		o.cost, o.hasCost = p.cost.of(f), true
	}
	if o.costs == nil {
		o.costs = p.costs
	}
	if o.hold == 0 {
		o.hold = p.hold
	}
	if o.usage == nil {
		o.usage = p.usage
	}
	if o.after == nil {
		o.after = p.after
	}
	if p.id != nil && !o.hasID {
		o.id, o.hasID = p.id, true
	}
	if p.failure != nil && !o.hasFailure {
		o.failure, o.hasFailure = p.failure, true
	}
}

// costsOf returns, by name, the costs of those limits that have a cost of their own. It returns nil
// if there are none.
func (o *terms) costsOf(limits []stint.Limit) (costs stint.Costs) {
	for i := range limits {
		if cost, ok := o.costs[limits[i].Name]; ok {
			if costs == nil {
				costs = stint.Costs{}
			}
			costs[limits[i].Name] = cost
		}
	}
	return costs
}

// join merges the terms of another reading into o: the highest costs, the longest hold and the
// strictest failure mode. Bans and a true cost apply if either reading has them. Units are given
// back, and repeats are recognized, only if the settings for that are the same in both readings.
func (o *terms) join(other *terms) {
	o.cost, o.hold = max(o.cost, other.cost), max(o.hold, other.hold)
	if len(other.costs) > 0 {
		all := maps.Clone(other.costs)
		for name, cost := range o.costs {
			all[name] = max(all[name], cost)
		}
		o.costs = all
	}
	if o.usage != other.usage {
		o.usage, o.atLeast = cmp.Or(o.usage, other.usage), true
	}
	if o.after != other.after {
		o.atLeast = o.atLeast || o.after.settles() || other.after.settles()
		o.after = o.after.join(other.after)
	}
	if o.id != other.id {
		o.id = nil
	}
	if strictness[other.failure.Mode] > strictness[o.failure.Mode] {
		o.failure = other.failure
	}
	if o.bans == nil {
		o.bans = other.bans
	}
}

// strictness ranks the failure modes from the most lenient, 0, to the strictest.
var strictness = [...]int{stint.FailAllow: 0, stint.FailLocal: 1, stint.FailError: 2, stint.FailDeny: 3}

func (c *Cost) of(f *facts) int64 {
	if c.Header != "" {
		if n, err := strconv.ParseInt(strings.TrimSpace(f.header(c.Header)), 10, 64); err == nil {
			return min(max(n, c.Min), c.Max)
		}
	}
	return c.Units
}
