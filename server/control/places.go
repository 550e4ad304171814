package control

import (
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/server/envoyrls"
)

// place is where a subject may be counted: limits and a scope, and whose they are.
type place struct {
	tier, policy, scope string
	limits              []stint.Limit
	// costs says that costs are counted, divided that there are parts of the scope, shadow that nobody is denied, and bans
	// that they are obeyed.
	costs, divided, shadow, bans bool
}

// Tiers of limits that are not those of policies.
const (
	tierEnvoy    = "envoy"
	tierOutbound = "outbound"
)

// key is the same for places that show the same.
func (p *place) key() string {
	var b strings.Builder
	for _, l := range p.limits {
		b.WriteString(l.String() + "\n")
	}
	return b.String() + p.scope
}

// places returns where a subject may be counted, at least one.
func (d *Desk) places(subject string) ([]place, error) {
	if err := checkSubject(subject); err != nil {
		return nil, err
	}
	if len(d.c.Limits) > 0 {
		return []place{{scope: d.c.Scope, limits: d.c.Limits, costs: true}}, nil
	}
	var found []place
	if rules := d.envoy(); rules != nil {
		if name, limits := rules.LimitsOf(subject, d.c.EnvoyWindow); limits != nil {
			found = append(found, place{tier: tierEnvoy, policy: name, limits: limits, costs: true})
		}
	}
	set := d.set()
	if set != nil {
		found = append(found, outboundPlaces(set, subject)...)
		if d.isHashed(subject) {
			subject = strings.Replace(subject, "#", ":", 1) // places are those of its kind
		}
		for _, p := range set.Places(subject) {
			found = append(found, place{
				tier: p.Rule.Tier, policy: p.Rule.Policy, scope: p.Scope,
				limits: p.Rule.Limits, costs: p.Rule.Costs, divided: p.Divided, shadow: p.Shadow, bans: p.Bans,
			})
		}
	}
	if len(found) == 0 {
		return nil, &UnknownError{Subject: subject, Kinds: d.kinds()}
	}
	return found, nil
}

// obeysBans reports an error unless a ban of the subject would be obeyed somewhere.
func (d *Desk) obeysBans(subject string) error {
	if subject == everyone || subject == kindIP+":unknown" {
		return invalid("%s is many callers together, whom nobody bans; name one of them", subject)
	}
	if len(d.c.Limits) > 0 || d.set() == nil {
		return nil // whose limits those are knows whether bans are
	}
	places, err := d.places(subject)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(places, func(p place) bool { return p.bans }) {
		return nil
	}
	return invalid("no limit of this subject obeys bans; with `bans: {after: 0}` in the configuration, those of policies obey the ones made by hand")
}

// untiered returns places without those that differ in nothing but the tier: of a policy with the same limits for several
// tiers one remains, of none.
func untiered(places []place) []place {
	var kept []place
	for _, p := range places {
		same := slices.IndexFunc(kept, func(q place) bool {
			return p.policy != "" && p.policy == q.policy && p.costs == q.costs && p.shadow == q.shadow && p.key() == q.key()
		})
		if same < 0 {
			kept = append(kept, p)
		} else if kept[same].tier != p.tier {
			kept[same].tier = ""
		}
	}
	return kept
}

func outboundPlaces(set *policy.Set, subject string) (found []place) {
	for _, api := range set.Outbound() {
		if subject == api.Name+":api" {
			found = append(found, place{tier: tierOutbound, policy: api.Name, limits: api.Limits, costs: true, bans: true})
		}
	}
	return found
}

func (d *Desk) set() *policy.Set {
	if d.c.Set == nil {
		return nil
	}
	return d.c.Set()
}

func (d *Desk) envoy() *envoyrls.Config {
	if d.c.Envoy == nil {
		return nil
	}
	return d.c.Envoy()
}

// kinds are what subjects may begin with.
func (d *Desk) kinds() []string {
	var kinds []string
	if set := d.set(); set != nil {
		for _, kind := range set.Kinds() {
			if kind != everyone {
				kind += ":"
			}
			kinds = append(kinds, kind)
		}
		for _, api := range set.Outbound() {
			kinds = append(kinds, api.Name+":api")
		}
	}
	if d.envoy() != nil {
		kinds = append(kinds, tierEnvoy+":")
	}
	return kinds
}
