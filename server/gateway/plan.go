package gateway

import (
	"cmp"
	"time"

	"github.com/stint-limiter/stint/policy"
)

// What only the set says, unless it does not.
const (
	// defaultMinBodyRate is what Apache asks for, and what the slowest modems of old did better than.
	defaultMinBodyRate = 500
	defaultSendTimeout = 30 * time.Second
)

// plan is what happens to requests while a set is in force: what the [Config] says, then the set, then the defaults.
type plan struct {
	set         *policy.Set
	routes      routes
	reserved    reserved
	maxBody     int64         // 0 is any
	bodyTimeout time.Duration // 0 is any
	minBodyRate int64         // bytes a second
	sendTimeout time.Duration
	passUnusual bool // paths
}

// planOf returns the plan by a set.
func (g *Gateway) planOf(set *policy.Set) *plan {
	if p := g.plan.Load(); p != nil && p.set == set {
		return p
	}
	p := g.newPlan(set)
	g.plan.Store(p)
	return p
}

func (g *Gateway) newPlan(set *policy.Set) *plan {
	c, said := &g.config, set.Gateway()
	p := &plan{
		set:         set,
		routes:      routes{},
		reserved:    newReserved(set, c.Reserved),
		maxBody:     cmp.Or(c.MaxBody, said.MaxBody),
		bodyTimeout: max(cmp.Or(c.BodyTimeout, said.BodyTimeout, DefaultBodyTimeout), 0),
		minBodyRate: cmp.Or(said.MinBodyRate, defaultMinBodyRate),
		sendTimeout: cmp.Or(said.SendTimeout, defaultSendTimeout),
		passUnusual: said.PassUnusualPaths,
	}
	list := c.Routes
	if len(list) == 0 {
		list = said.Routes
	}
	for i := range list {
		r := newRoute(&list[i])
		r.line = g.lines.with(timeouts{
			dial:           cmp.Or(list[i].DialTimeout, c.DialTimeout, said.DialTimeout, DefaultDialTimeout),
			responseHeader: max(cmp.Or(list[i].ResponseHeaderTimeout, c.ResponseHeaderTimeout, said.ResponseHeaderTimeout, DefaultResponseHeaderTimeout), 0),
		})
		p.routes.add(r) // no two are for the same requests: that has been checked
	}
	return p
}
