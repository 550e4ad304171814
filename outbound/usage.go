package outbound

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/tokens"
)

// holdTime is how long a call with costs may take. If it is not settled by then, because the
// process has died for instance, its estimate is given back.
const holdTime = time.Hour

// tokenNames are the names of limits that count tokens.
var tokenNames = []string{"tokens", tokens.InputName, tokens.OutputName}

func countsTokens(name string) bool {
	return name == tokenNames[0] || name == tokens.InputName || name == tokens.OutputName
}

// WaitFor is Wait for a call that costs more than one unit of limits with a name: the costs are
// estimates by these names, such as {"tokens": 4096}, and all other limits count one call. The
// estimates are held until [Client.Settle], for an hour at most. Such calls are not in order: each
// asks again when there may be room.
func (c *Client) WaitFor(ctx context.Context, costs stint.Costs) (stint.Decision, error) {
	if costs == nil {
		costs = stint.Costs{}
	}
	return c.wait(ctx, costs)
}

// Settle charges what a call that [Client.WaitFor] let through has used, by the names of limits,
// instead of its estimate. What is not named is charged as it was.
func (c *Client) Settle(ctx context.Context, d stint.Decision, costs stint.Costs) error {
	e, err := c.registry.find(c.name)
	if err != nil {
		return err
	}
	all := stint.Costs{}
	for _, claim := range d.Charge.Claims() {
		for i := range claim.Limits {
			l := &claim.Limits[i]
			all[l.Name] = claim.CostOf(l)
			if cost, ok := costs[l.Name]; ok {
				all[l.Name] = cost
			}
		}
	}
	_, err = e.limiter.Amend(ctx, d, stint.Amendment{Kind: stint.AmendSettle, Costs: all})
	return err
}

// Usage returns how the tokens of calls are counted; nil if they are not. It is for the transport
// of package httplimit.
func (c *Client) Usage() *tokens.Rules {
	e, err := c.registry.find(c.name)
	if err != nil {
		return nil
	}
	return e.usage
}

// Costs returns what counts of tokens amount to, by the names of limits. An estimate is no more
// than half of the smallest limit that counts the same. It is for the transport of package
// httplimit.
func (c *Client) Costs(counts tokens.Counts, estimate bool) stint.Costs {
	costs := stint.Costs{}
	e, err := c.registry.find(c.name)
	if err != nil || e.usage == nil {
		return costs
	}
	for i := range e.api.Limits {
		l := &e.api.Limits[i]
		if !countsTokens(l.Name) {
			continue
		}
		cost, seen := costs[l.Name]
		if !seen {
			cost = e.usage.Units(counts, l.Name)
		}
		if estimate {
			cost = max(min(cost, min(l.Max, l.Capacity())/2), 1)
		}
		costs[l.Name] = cost
	}
	return costs
}
