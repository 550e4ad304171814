package gateway

import (
	"cmp"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/policy"
)

// Defaults of what only the set can configure.
const (
	// defaultMinBodyRate is Apache's. Even the slowest modems were faster.
	defaultMinBodyRate = 500
	defaultSendTimeout = 30 * time.Second
)

// settings are what applies to requests while a set is in force: the [Config], then the set, then
// the defaults.
type settings struct {
	set         *policy.Set
	routes      routes
	reserved    reserved
	maxBody     int64         // 0 means no limit
	bodyTimeout time.Duration // 0 means no limit
	minBodyRate int64         // bytes per second
	sendTimeout time.Duration
	passUnusual bool // paths
}

// settingsOf returns the settings for a set.
func (g *Gateway) settingsOf(set *policy.Set) *settings {
	if p := g.settings.Load(); p != nil && p.set == set {
		return p
	}
	p := g.newSettings(set)
	g.settings.Store(p)
	return p
}

func (g *Gateway) newSettings(set *policy.Set) *settings {
	c, section := &g.config, config.Of(set).Gateway
	p := &settings{
		set:         set,
		routes:      routes{},
		reserved:    newReserved(set, c.Reserved),
		maxBody:     cmp.Or(c.MaxBody, section.MaxBody),
		bodyTimeout: max(cmp.Or(c.BodyTimeout, section.BodyTimeout, DefaultBodyTimeout), 0),
		minBodyRate: cmp.Or(section.MinBodyRate, defaultMinBodyRate),
		sendTimeout: cmp.Or(section.SendTimeout, defaultSendTimeout),
		passUnusual: section.PassUnusualPaths,
	}
	list := c.Routes
	if len(list) == 0 {
		list = section.Routes
	}
	for i := range list {
		r := newRoute(&list[i])
		r.transports = g.transports.with(timeouts{
			dial: cmp.Or(list[i].DialTimeout, c.DialTimeout, section.DialTimeout, DefaultDialTimeout),
			responseHeader: max(cmp.Or(list[i].ResponseHeaderTimeout, c.ResponseHeaderTimeout,
				section.ResponseHeaderTimeout, DefaultResponseHeaderTimeout),
				0),
		})
		p.routes.add(r) // no two match the same requests: that has been checked
	}
	return p
}
