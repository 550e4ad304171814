package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/outbound"
)

func (c *compiler) outbound() {
	for _, name := range sorted(c.doc.Outbound) {
		doc, key := c.doc.Outbound[name], "outbound."+name
		if !c.nameOK(key, name) {
			continue
		}
		if identity, ok := c.identityOf(name); ok {
			c.mistake(key, "is also the type of the identity %q, so a caller named api would share its keys; choose another name", identity)
		}
		if doc.FailFast && doc.MaxWait > 0 {
			c.mistake(key+".max_wait", "has no effect with fail_fast, because no call waits; want one or the other")
		}
		if doc.FailFast && doc.Retries > 0 {
			c.mistake(key+".retries", "has no effect with fail_fast, because a retry has to wait; want one or the other")
			doc.Retries = 0
		}
		failure := c.failure(key+".failure", doc.Failure)
		api := outbound.API{}
		if doc.Preset != "" {
			var ok bool
			if api, ok = outbound.Presets()[doc.Preset]; !ok {
				known := sorted(outbound.Presets())
				c.mistake(key+".preset", "unknown preset %q; %s", doc.Preset, messages.Want(doc.Preset, known))
				continue
			}
		}
		api.Name = name
		if len(doc.Limits) > 0 {
			api.Limits = doc.Limits
		}
		if c.repeated(key+".limits", api.Limits) {
			continue
		}
		if len(api.Limits) == 0 {
			c.mistake(key, "has neither limits nor a preset; want something like limits: 4/1s")
			continue
		}
		api.Usage = doc.Usage
		api.FailFast, api.Retries = doc.FailFast, int(doc.Retries)
		api.MaxWait, api.MaxCooldown = time.Duration(doc.MaxWait), time.Duration(doc.MaxCooldown)
		api.Failure = cmp.Or(failure, &c.spec.Failure)
		c.mistakes(key, api.Validate())
		c.config.Outbound = append(c.config.Outbound, api)
	}
}

// repeated reports whether two of the limits would share a count. If so, it adds a mistake.
func (c *compiler) repeated(key string, limits []stint.Limit) bool {
	for i, l := range limits {
		if slices.ContainsFunc(limits[:i], func(m stint.Limit) bool { return contract.SameID(&l, &m) }) {
			c.mistake(key, "%s has the same algorithm and window as another limit; give one of them a name, such as %q",
				l, "other: "+l.String())
			return true
		}
	}
	return false
}

// nameOK reports whether a name is valid in keys, labels and headers. If not, it adds a mistake.
func (c *compiler) nameOK(key, name string) bool {
	if syntax.IsShortName(name) {
		return true
	}
	c.mistake(key, "%q is not a valid name; want 1 to 64 letters, digits and _-.", name)
	return false
}

// identityOf returns the name of the identity whose subjects have the type typ, and whether there
// is one.
func (c *compiler) identityOf(typ string) (string, bool) {
	for _, name := range sorted(c.doc.Identities) {
		if cmp.Or(c.doc.Identities[name].Type, name) == typ {
			return name, true
		}
	}
	_, redefined := c.doc.Identities[typ]
	return typ, !redefined && (typ == "ip" || typ == "user" || typ == "everyone")
}
