package outbound

import (
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/tokens"
)

const (
	// holdTime is the time for which a call's estimate is held after its last heartbeat, for
	// example if the process has died.
	holdTime = 5 * time.Minute
	// longestCall is the maximum time for which heartbeats keep the estimate of a call that is not
	// settled.
	longestCall = time.Hour
)

var tokenNames = []string{"tokens", tokens.InputName, tokens.OutputName}

func countsTokens(name string) bool { return slices.Contains(tokenNames, name) }

// WaitFor is [Client.Wait] for a call that costs more than one unit of some limits. costs holds the
// estimated cost for each of these limits, by name, such as {"tokens": 4096}; all other limits
// count one call. The estimates are held until [Client.Settle]. Without Settle, they expire after
// about an hour, or five minutes after the process dies. Such calls are not made in order of
// arrival: each call asks the store again when there may be room.
func (c *Client) WaitFor(ctx context.Context, costs stint.Costs) (stint.Decision, error) {
	if costs == nil {
		costs = stint.Costs{}
	}
	d, err := c.wait(ctx, costs)
	if err == nil {
		c.keep(d)
	}
	return d, err
}

// keep sends heartbeats for the estimates of a call, until the call is settled or takes too long,
// or until the registry is closed.
func (c *Client) keep(d stint.Decision) {
	if d.Charge.Data().Hold == 0 {
		return // nothing is held, for example because the store is unavailable
	}
	e, err := c.registry.find(c.name)
	if err != nil {
		return // the API is no longer registered
	}
	ctx, end := context.WithTimeout(context.Background(), longestCall)
	c.mu.Lock()
	if c.held == nil {
		c.held = map[uint64]context.CancelFunc{}
	}
	c.held[d.Charge.Data().ID] = end
	c.mu.Unlock()
	c.registry.run(func() {
		_, release := e.limiter.Hold(context.Background(), d)
		select {
		case <-ctx.Done():
		case <-c.registry.done:
		}
		c.letGo(d)
		_ = release() // ends the heartbeats; there is no place to give back
	})
}

// letGo ends the heartbeats of a call.
func (c *Client) letGo(d stint.Decision) {
	id := d.Charge.Data().ID
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := c.held[id]; end != nil {
		delete(c.held, id)
		end()
	}
}

// Settle corrects the charge of a call that [Client.WaitFor] admitted. It replaces the estimates
// with costs, which holds the actual costs by limit name. What other limits were charged stays as
// it was. If costs contains the name of an unknown limit, Settle returns a [*stint.InvalidError]
// and changes nothing.
func (c *Client) Settle(ctx context.Context, d stint.Decision, costs stint.Costs) error {
	if !d.Charge.IsZero() {
		claim := d.Charge.Claims()[0]
		claim.Costs = costs
		if err := (&stint.Request{Claims: []stint.Claim{claim}}).Validate(); err != nil {
			return err
		}
	}
	c.letGo(d)
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

// costs converts token counts to costs by limit name. An estimated cost is at least 1 and, if that
// allows it, at most half of the smallest limit with that name.
func (e *entry) costs(counts tokens.Counts, estimate bool) stint.Costs {
	costs := stint.Costs{}
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
