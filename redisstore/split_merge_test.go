package redisstore

import (
	"slices"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// What a group was charged and is given back is subtracted once, however often its decision is
// merged.
func TestMergeLeavesTheGroupsAlone(t *testing.T) {
	limits := []stint.Limit{stint.PerHour(10)}
	r := &stint.Request{
		Claims: []stint.Claim{{Subject: "a", Limits: limits, Cost: 1}, {Subject: "b", Limits: limits, Cost: 2}},
	}
	q := &split{r: r, groups: groups(r.Claims)}
	first, second := &q.groups[0], &q.groups[1]
	first.asked, first.decision = true, stint.Decision{RetryAfter: 1}
	first.decision.MakeUsages(1)[0] = stint.Usage{Used: 10, RetryAfter: 1}
	second.asked, second.decision = true, stint.Decision{
		Allowed: true, Charge: driver.NewCharge(nil, driver.ChargeData{ID: 1, At: 1})}
	second.decision.MakeUsages(1)[0] = stint.Usage{Used: 5}
	for range 2 {
		d := q.merge()
		if want := []stint.Usage{{Used: 10, RetryAfter: 1}, {Used: 3}}; d.Allowed || !slices.Equal(d.Usages(), want) {
			t.Errorf("allowed %v, %+v; want denied, %+v", d.Allowed, d.Usages(), want)
		}
	}
}
