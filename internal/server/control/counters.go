package control

import (
	"slices"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/policy"
)

// counter holds the limits that count a subject in one scope, with the tier and the policy that set
// these limits.
type counter struct {
	// Count.Rule is the rule that sets the limits. Rule.Limits are the limits without overrides.
	// The rule is noRule if the limits do not come from policies.
	setinfo.Count
	tier, policy string
	limits       []stint.Limit
}

// noRule is the rule of limits that do not come from policies. These limits count costs.
var noRule = &policy.Rule{Costs: true}

// Tiers of limits that do not belong to policies.
const (
	tierEnvoy    = "envoy"
	tierOutbound = "outbound"
)

// key returns a key for the counter. Counters with the same limits, claims and scope have the same
// key.
func (p *counter) key() string {
	var b strings.Builder
	for i := range p.limits {
		b.WriteString(p.limits[i].String() + "\n" + p.claim(&p.limits[i]) + "\n")
	}
	return b.String() + p.Scope
}

// claim returns the name of the claim that sets the maximum of a limit, or "" if there is none.
func (p *counter) claim(l *stint.Limit) string {
	for i := range p.Rule.Claimed {
		if contract.SameID(&p.limits[i], l) {
			return p.Rule.Claimed[i].Claim
		}
	}
	return ""
}

// configuredAs returns, as text, the configured limit that an override has changed to l. It returns
// "" if no override has changed l.
func (p *counter) configuredAs(l *stint.Limit) string {
	for i := range p.Rule.Limits {
		if c := &p.Rule.Limits[i]; contract.SameID(c, l) && (c.Max != l.Max || c.Burst != l.Burst) {
			return c.String()
		}
	}
	return ""
}

func (p *counter) notifies(l *stint.Limit) []int {
	if p.Shadow {
		return nil
	}
	return p.Rule.Notifies(l)
}

// counters returns all counters that might count a subject. If there are none, it returns an error.
func (d *Admin) counters(subject string) ([]counter, error) {
	if err := checkSubject(subject); err != nil {
		return nil, err
	}
	if len(d.c.Limits) > 0 {
		return []counter{{Count: setinfo.Count{Rule: noRule, Scope: d.c.Scope}, limits: d.c.Limits}}, nil
	}
	var found []counter
	if d.c.Envoy != nil {
		if name, limits := d.c.Envoy(subject); limits != nil {
			found = append(found, counter{Count: setinfo.Count{Rule: noRule}, tier: tierEnvoy, policy: name, limits: limits})
		}
	}
	set := d.c.Set()
	if set != nil {
		found = append(found, outboundCounters(set, subject)...)
		own, kind := d.overridesOf(subject), subject
		if d.isHashed(subject) {
			kind = strings.Replace(subject, "#", ":", 1) // user#1f2e has the same counters as user:42
		}
		for _, p := range setinfo.Counts(set, kind) {
			found = append(found, counter{Count: p, tier: p.Rule.Tier, policy: p.Rule.Policy,
				limits: effective(own, p.Rule)})
		}
	}
	if len(found) == 0 {
		return nil, &UnknownError{Subject: subject, Kinds: d.kinds()}
	}
	return found, nil
}

// checkBansApply returns an error if, according to the policies, bans do not apply to a subject.
func (d *Admin) checkBansApply(subject string) error {
	if subject == setinfo.Everyone || subject == setinfo.IP+":"+setinfo.UnknownClient {
		return invalid("%s stands for many callers, which cannot be banned together; name one of them", subject)
	}
	if len(d.c.Limits) > 0 || d.c.Set() == nil {
		return nil // without policies, it is unknown whether bans apply
	}
	counters, err := d.counters(subject)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(counters, func(p counter) bool { return p.Bans }) {
		return nil
	}
	return invalid("no limit of this subject applies bans; set `bans: {after: 0}` in the configuration to apply those made by hand")
}

// mergeTiers merges the counters of a policy that differ only in the tier. A merged counter has no
// tier.
func mergeTiers(counters []counter) []counter {
	var kept []counter
	for _, p := range counters {
		same := slices.IndexFunc(kept, func(q counter) bool {
			return p.policy != "" && p.policy == q.policy && p.Rule.Costs == q.Rule.Costs && p.Shadow == q.Shadow &&
				p.key() == q.key()
		})
		if same < 0 {
			kept = append(kept, p)
		} else if kept[same].tier != p.tier {
			kept[same].tier = ""
		}
	}
	return kept
}

func outboundCounters(set *policy.Set, subject string) (found []counter) {
	for _, api := range setinfo.Config(set).Outbound {
		if subject == api.Name+":api" {
			found = append(found, counter{Count: setinfo.Count{Rule: noRule, Bans: true},
				tier: tierOutbound, policy: api.Name, limits: api.Limits})
		}
	}
	return found
}

// kinds returns the prefixes of all limited subjects, for error messages.
func (d *Admin) kinds() []string {
	var kinds []string
	if set := d.c.Set(); set != nil {
		for _, kind := range setinfo.Kinds(set) {
			if kind != setinfo.Everyone {
				kind += ":"
			}
			kinds = append(kinds, kind)
		}
		for _, api := range setinfo.Config(set).Outbound {
			kinds = append(kinds, api.Name+":api")
		}
	}
	if d.c.Envoy != nil {
		kinds = append(kinds, tierEnvoy+":")
	}
	return kinds
}
