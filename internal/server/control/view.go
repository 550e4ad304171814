package control

import (
	"cmp"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/overrides"
)

// Subject is the state of a subject in a store: its ban, and its usage under every limit in the
// configuration that might apply to it.
type Subject struct {
	Named
	// Now is the time by the store's clock.
	Now time.Time `json:"now"`
	// Ban holds the subject's ban and strikes. If there is no ban, its end is omitted.
	Ban driver.BanState `json:"ban"`
	// Limits are in the order of the configuration.
	Limits []Limit `json:"limits"`
	// LeftOut is the number of limits that were left out because there are more than [MaxLimits].
	LeftOut int `json:"left_out,omitempty"`
	// Overrides are the overrides in force.
	Overrides []overrides.Override `json:"overrides,omitempty"`
}

// Limit is a limit with its usage. Times are in seconds.
type Limit struct {
	// Tier and Policy are the names of the tier and the policy that set the limit. Policy is "" for
	// a tier's own limit, and Tier is "" for a policy's limit that is the same for several tiers.
	// The Tier of Envoy's descriptors is "envoy", and the Tier of third-party APIs is "outbound".
	// Limits from the caller have neither a tier nor a policy.
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	Scope  string `json:"scope"`
	// Divided reports whether parts of the scope may be missing, because the store could not list
	// all of them. The policy counts each part separately, for example each value of a path
	// variable. Each part that the store has listed is a Limit with its own scope.
	Divided bool `json:"divided,omitempty"`
	// Limit is the limit as text, such as "10/1m burst 2x". If Claim is set, requests get the
	// maximum from the claim with this name, and Limit applies to requests without the claim.
	Limit string `json:"limit"`
	Claim string `json:"claim,omitempty"`
	// Configured is the limit in the configuration if an override has changed it, and "" otherwise.
	Configured string `json:"configured,omitempty"`
	Algorithm  string `json:"algorithm"`
	// Costs reports whether the limit counts costs instead of requests.
	Costs bool `json:"costs,omitempty"`
	// Notify lists the percentages of the limit at which its use is reported.
	Notify []int `json:"notify,omitempty"`
	// Shadow reports whether the limit is not enforced.
	Shadow   bool  `json:"shadow,omitempty"`
	Max      int64 `json:"max"`
	Capacity int64 `json:"capacity"`
	// Window is the time in which Max units become available again. At most Capacity units are
	// admitted at once.
	Window    float64 `json:"window_seconds"`
	Used      int64   `json:"used"`
	Remaining int64   `json:"remaining"`
	// Held is the number of units in Used that are held until the actual cost is known. Results of
	// [Admin.Take] do not set Held.
	Held int64 `json:"held,omitempty"`
	// ResetAfter is the time until Used is 0. RetryAfter is the time until the limit has room; -1
	// means never.
	ResetAfter float64 `json:"reset_after_seconds"`
	RetryAfter float64 `json:"retry_after_seconds"`
	// Entries are the charges, oldest first. Results of [Admin.Take] do not set Entries.
	Entries []driver.Entry `json:"entries,omitempty"`
	// LeftOut is the number of units in entries older than those in Entries.
	LeftOut int64 `json:"left_out,omitempty"`
}

// Rule returns the name that overrides use for the limit: its policy or, if it has none, its tier.
// It returns "" if overrides cannot change the limit.
func (l *Limit) Rule() string {
	if l.Tier == tierEnvoy || l.Tier == tierOutbound {
		return ""
	}
	return cmp.Or(l.Policy, l.Tier)
}

// Ban is a ban in force.
type Ban struct {
	driver.Banned
	// Ref can be used instead of the subject if the server shows only a shortened form of the
	// subject.
	Ref string `json:"ref,omitempty"`
	// Matched is the number of requests that the server has denied because of the ban.
	Matched int64 `json:"matched,omitempty"`
}

func newLimit(p *counter, s stint.State) Limit {
	return Limit{
		Tier: p.tier, Policy: p.policy, Scope: p.Scope, Divided: p.Divided, Costs: p.Rule.Costs, Shadow: p.Shadow,
		Limit: s.Limit.String(), Claim: p.claim(s.Limit), Notify: p.notifies(s.Limit),
		Configured: p.configuredAs(s.Limit), Algorithm: s.Limit.Algorithm.String(),
		Max: s.Limit.Max, Capacity: s.Limit.Capacity(), Window: s.Limit.Window.Seconds(),
		Used: s.Used, Remaining: s.Remaining(), ResetAfter: s.ResetAfter.Seconds(), RetryAfter: seconds(s.RetryAfter),
	}
}

func newWindow(p *counter, w *driver.Window) Limit {
	l := newLimit(p, w.State)
	l.Held, l.Entries, l.LeftOut = w.Held, w.Entries, w.LeftOut
	return l
}

// seconds returns a wait in seconds. For [stint.Never], it returns -1.
func seconds(d time.Duration) float64 {
	if d == stint.Never {
		return -1
	}
	return d.Seconds()
}
