package control

import (
	"time"

	"github.com/stint-limiter/stint"
)

// Subject is what a store knows of somebody: the ban, and what is used of every limit under which a subject like this one
// could be counted, as far as the configuration can tell.
type Subject struct {
	Subject string `json:"subject"`
	// Note says what was made of what somebody wrote; see [Named].
	Note string `json:"note,omitempty"`
	// Now is the store's clock.
	Now time.Time `json:"now"`
	Ban BanState  `json:"ban"`
	// Limits are in the order of the configuration.
	Limits []Limit `json:"limits"`
	// LeftOut is how many there are beyond [MaxLimits].
	LeftOut int `json:"left_out,omitempty"`
}

// BanState is what is known of a subject's misdeeds. See [stint.BanState].
type BanState struct {
	// Until is when the ban ends; left out if there is none.
	Until   time.Time `json:"until,omitzero"`
	Level   int       `json:"level"`
	Strikes int64     `json:"strikes"`
}

// Limit is a limit with what is used of it. Times are in seconds.
type Limit struct {
	// Tier and Policy are whose limit it is. The policy is "" for the tier's own, and the tier for a policy's that are the
	// same for several. Envoy's descriptors are of the tier "envoy", other people's APIs of "outbound", and limits that
	// somebody brought along of neither.
	Tier   string `json:"tier"`
	Policy string `json:"policy"`
	Scope  string `json:"scope"`
	// Divided says that the policy counts in parts of the scope, such as one for each value of a path variable, and that
	// some may not be shown, because the store could not tell them all. Where it could, the parts have their own scopes.
	Divided bool `json:"divided,omitempty"`
	// Limit is its text, such as "10/1m burst 2x".
	Limit     string `json:"limit"`
	Algorithm string `json:"algorithm"`
	// Costs says that it counts costs, and not requests.
	Costs bool `json:"costs,omitempty"`
	// Shadow says that it denies nobody.
	Shadow   bool  `json:"shadow,omitempty"`
	Max      int64 `json:"max"`
	Capacity int64 `json:"capacity"`
	// Window is that in which Max units come back, and at most Capacity are admitted.
	Window    float64 `json:"window"`
	Used      int64   `json:"used"`
	Remaining int64   `json:"remaining"`
	// ResetAfter is until nothing is used, and RetryAfter until there is room: 0 if there is, -1 for never.
	ResetAfter float64 `json:"reset_after"`
	RetryAfter float64 `json:"retry_after"`
	// Entries are what was charged, oldest first. Answers to [Desk.Take] have none.
	Entries []Entry `json:"entries,omitempty"`
	// LeftOut is how many units are in entries that are not shown.
	LeftOut int64 `json:"left_out,omitempty"`
}

// Entry is a charge, a booking if At is to come, or a place that is held if there is no At. See [stint.Entry].
type Entry struct {
	At    time.Time `json:"at,omitzero"`
	Until time.Time `json:"until"`
	Units int64     `json:"units"`
}

// Ban is a ban in force.
type Ban struct {
	Subject string `json:"subject"`
	// Ref stands for a subject that is shown shortened.
	Ref     string    `json:"ref,omitempty"`
	Until   time.Time `json:"until"`
	Level   int       `json:"level"`
	Strikes int64     `json:"strikes"`
}

// limitOf returns a limit with what is used of it.
func limitOf(p *place, s stint.State) Limit {
	return Limit{
		Tier: p.tier, Policy: p.policy, Scope: p.scope, Divided: p.divided, Costs: p.costs, Shadow: p.shadow,
		Limit: s.Limit.String(), Algorithm: s.Limit.Algorithm.String(),
		Max: s.Limit.Max, Capacity: s.Limit.Capacity(), Window: s.Limit.Window.Seconds(),
		Used: s.Used, Remaining: s.Remaining(), ResetAfter: s.ResetAfter.Seconds(), RetryAfter: seconds(s.RetryAfter),
	}
}

// windowOf returns a limit with what is in it.
func windowOf(p *place, w *stint.Window) Limit {
	l := limitOf(p, w.State)
	l.LeftOut = w.LeftOut
	for _, e := range w.Entries {
		l.Entries = append(l.Entries, Entry(e))
	}
	return l
}

// seconds returns a wait, -1 for [stint.Never].
func seconds(d time.Duration) float64 {
	if d == stint.Never {
		return -1
	}
	return d.Seconds()
}
