package gateway

import (
	"cmp"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/policy"
)

// settings are the gateway's settings while a set is in force. Settings passed to [New] take
// precedence over settings in the set, which take precedence over defaults.
type settings struct {
	config.Gateway
	set      *policy.Set
	routes   routes
	reserved reserved
}

func (g *Gateway) settingsOf(set *policy.Set) *settings {
	if p := g.settings.Load(); p != nil && p.set == set {
		return p
	}
	p := g.newSettings(set)
	g.settings.Store(p)
	return p
}

func (g *Gateway) newSettings(set *policy.Set) *settings {
	c, section := &g.config, setinfo.Config(set).Gateway
	p := &settings{Gateway: *c, set: set, routes: routes{}, reserved: newReserved(set, c.Reserved)}
	p.DialTimeout = cmp.Or(c.DialTimeout, section.DialTimeout, DefaultDialTimeout)
	p.ResponseHeaderTimeout = cmp.Or(c.ResponseHeaderTimeout, section.ResponseHeaderTimeout,
		DefaultResponseHeaderTimeout)
	p.BodyTimeout = max(cmp.Or(c.BodyTimeout, section.BodyTimeout, DefaultBodyTimeout), 0) // 0 means no limit
	p.MinBodyRate = cmp.Or(c.MinBodyRate, section.MinBodyRate, defaultMinBodyRate)
	p.SendTimeout = cmp.Or(c.SendTimeout, section.SendTimeout, defaultSendTimeout)
	p.MaxBody = cmp.Or(c.MaxBody, section.MaxBody)
	p.PassUnusualPaths = c.PassUnusualPaths || section.PassUnusualPaths
	if len(p.Routes) == 0 {
		p.Routes = section.Routes
	}
	for i := range p.Routes {
		from := &p.Routes[i]
		r := newRoute(from)
		r.transports = g.transports.with(timeouts{
			dial:           cmp.Or(from.DialTimeout, p.DialTimeout),
			responseHeader: max(cmp.Or(from.ResponseHeaderTimeout, p.ResponseHeaderTimeout), 0),
		})
		p.routes.add(r) // never fails: no two valid routes match the same requests
	}
	return p
}
