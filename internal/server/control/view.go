package control

import (
	"cmp"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/overrides"
)

// Subject is what a store knows about a subject: its ban, and the usage of every limit under which
// it could be counted, as far as the configuration tells.
type Subject struct {
	Named
	// Now is the store's clock.
	Now time.Time `json:"now"`
	// Ban is the subject's ban and strikes. Without a ban, its end is omitted.
	Ban driver.BanState `json:"ban"`
	// Limits are in the order of the configuration.
	Limits []Limit `json:"limits"`
	// LeftOut is how many limits there are beyond [MaxLimits].
	LeftOut int `json:"left_out,omitempty"`
	// Overrides are those in force.
	Overrides []overrides.Override `json:"overrides,omitempty"`
}

// Limit is a limit with its usage. Times are in seconds.
type Limit struct {
	// Tier and Policy own the limit. The policy is "" for the tier's own limits, and the tier is ""
	// for those of a policy that are the same for several tiers. Envoy's descriptors have the tier
	// "envoy", external APIs "outbound", and limits from the caller neither.
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	Scope  string `json:"scope"`
	// Divided means that the policy counts in parts of the scope, such as one for each value of a
	// path variable, and that some may be missing, because the store could not list them all. Where
	// it could, the parts have their own scopes.
	Divided bool `json:"divided,omitempty"`
	// Limit is its text, such as "10/1m burst 2x". With a Claim, this is the limit of requests that
	// do not have it: only requests say what numbers their claims give.
	Limit string `json:"limit"`
	Claim string `json:"claim,omitempty"`
	// Configured is the limit as the configuration has it, if an override has changed it; else "".
	Configured string `json:"configured,omitempty"`
	Algorithm  string `json:"algorithm"`
	// Costs means that it counts costs, not requests.
	Costs bool `json:"costs,omitempty"`
	// Notify are the shares of it that are reported when they are used, in percent.
	Notify []int `json:"notify,omitempty"`
	// Shadow means that it denies no one.
	Shadow   bool  `json:"shadow,omitempty"`
	Max      int64 `json:"max"`
	Capacity int64 `json:"capacity"`
	// Window is the time in which Max units come back, and at most Capacity are admitted.
	Window    float64 `json:"window_seconds"`
	Used      int64   `json:"used"`
	Remaining int64   `json:"remaining"`
	// Held is how many of the units in Used are held until their true cost is known. Results of
	// [Admin.Take] have none.
	Held int64 `json:"held,omitempty"`
	// ResetAfter is the time until nothing is used, and RetryAfter until there is room; -1 is
	// never.
	ResetAfter float64 `json:"reset_after_seconds"`
	RetryAfter float64 `json:"retry_after_seconds"`
	// Entries are the charges, oldest first. Results of [Admin.Take] have none.
	Entries []driver.Entry `json:"entries,omitempty"`
	// LeftOut is how many units are in entries that are not shown.
	LeftOut int64 `json:"left_out,omitempty"`
}

// Rule is the policy or tier that has the limit, as overrides name it; "" if it is neither.
func (l *Limit) Rule() string {
	if l.Tier == tierEnvoy || l.Tier == tierOutbound {
		return ""
	}
	return cmp.Or(l.Policy, l.Tier)
}

// Ban is a ban in force.
type Ban struct {
	driver.Banned
	// Ref stands for a subject that is shown shortened.
	Ref string `json:"ref,omitempty"`
	// Matched is how many requests the server has denied because of it.
	Matched int64 `json:"matched,omitempty"`
}

func newLimit(p *counter, s stint.State) Limit {
	return Limit{
		Tier: p.tier, Policy: p.policy, Scope: p.scope, Divided: p.divided, Costs: p.costs, Shadow: p.shadow,
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

// seconds returns a wait in seconds, -1 for [stint.Never].
func seconds(d time.Duration) float64 {
	if d == stint.Never {
		return -1
	}
	return d.Seconds()
}
