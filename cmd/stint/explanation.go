package main

import (
	"cmp"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/overrides"
	"github.com/stint-limiter/stint/policy"
)

// explanation describes how a request would be decided, in the form that is printed. Programs read
// its JSON form, so keys may be added, but not changed or removed.
type explanation struct {
	Method string `json:"method"`
	Host   string `json:"host,omitempty"`
	Path   string `json:"path"`
	// Also lists other ways in which an application may interpret the request, such as "POST
	// /login". Limits apply if they match any of these requests; exemptions must match all.
	Also []string `json:"also,omitempty"`
	// Peer is the address of the remote end of the connection, or "unix" for a Unix socket. Client
	// is the client behind the peer.
	Peer   string `json:"peer"`
	Client string `json:"client"`
	// PeerAssumed reports whether Peer is assumedPeer because the command line specifies no peer.
	PeerAssumed bool `json:"peer_assumed,omitempty"`
	// Skipped is the name of the policy that exempts the request. If it is set, verdict is nil.
	Skipped string `json:"skipped,omitempty"`
	*verdict
}

// verdict describes the decision on a request that no policy exempts.
type verdict struct {
	Tier      string              `json:"tier"`
	Route     string              `json:"route,omitempty"`
	Cost      int64               `json:"cost"`
	Tiers     []policy.Considered `json:"tiers"`
	Policies  []policy.Considered `json:"policies"`
	Counts    []charge            `json:"counts"`
	Numbers   []policy.Number     `json:"numbers,omitempty"`
	RequestID requestID           `json:"request_id"`
	Failure   failure             `json:"failure"`
	Bans      *bans               `json:"bans,omitempty"`
	Hold      duration            `json:"hold_seconds,omitempty"`
	After     string              `json:"after,omitempty"`
}

type charge struct {
	Key    string        `json:"key"`
	Tier   string        `json:"tier"`
	Policy string        `json:"policy,omitempty"` // "" if the limits are the tier's own
	Limits []stint.Limit `json:"limits"`
	Units  int64         `json:"units"`
	Costs  bool          `json:"costs"` // whether Units counts cost units, not requests
	// ByName holds the units that are charged to named limits with costs of their own.
	ByName stint.Costs `json:"units_by_name,omitempty"`
	Shadow bool        `json:"shadow,omitempty"`
	// Override is the override of the subject, or nil. Configured holds the limits without the
	// override.
	Override   *overrides.Override `json:"override,omitempty"`
	Configured []stint.Limit       `json:"configured,omitempty"`
}

type requestID struct {
	Header string   `json:"header,omitempty"`
	Named  bool     `json:"named"`
	Derive duration `json:"derive_seconds,omitempty"`
}

type failure struct {
	Mode   string   `json:"mode"`
	Budget duration `json:"budget_seconds"`
	// Breaker describes when the breaker stops calls to the store, and when it tries the store
	// again.
	Breaker breaker `json:"breaker"`
}

type breaker struct {
	Failures int      `json:"failures"`
	Probe    duration `json:"probe_seconds"`
	Retry    duration `json:"retry_seconds"`
}

func breakerOf(c *config.Config) breaker {
	return breaker{
		Failures: cmp.Or(c.BreakerFailures, contract.DefaultBreakerFailures),
		Probe:    duration(cmp.Or(c.BreakerProbe, contract.DefaultBreakerProbe)),
		Retry:    duration(cmp.Or(c.BreakerRetry, contract.DefaultBreakerRetry)),
	}
}

type bans struct {
	After     int        `json:"after"`
	Within    duration   `json:"within_seconds,omitempty"`
	Durations []duration `json:"durations_seconds,omitempty"`
	Forgive   duration   `json:"forgive_seconds,omitempty"`
}

func explanationOf(c *config.Config, in *policy.Input, over []overrides.Override) *explanation {
	e := c.Set.Explain(in, overrides.Fixed(over))
	result := &explanation{Method: in.Method, Host: in.Host, Path: e.Path, Also: e.Also, Peer: unixPeer,
		Client: e.Client, Skipped: e.Skipped}
	if in.Peer.IsValid() {
		result.Peer = in.Peer.String()
	}
	if e.Skipped != "" {
		return result
	}
	result.verdict = &verdict{
		Tier: e.Tier, Route: e.Route, Cost: e.Cost,
		Tiers: e.Tiers, Policies: append([]policy.Considered{}, e.Policies...),
		Counts: chargesOf(e.Results, over), Numbers: e.Numbers,
		RequestID: requestID{e.RequestID, e.Named, duration(e.Derived)}, Bans: bansOf(e.Bans),
		Hold: duration(e.Hold), After: e.After,
		Failure: failure{Mode: e.Failure.Mode.String(), Budget: duration(cmp.Or(e.Failure.Budget,
			contract.DefaultBudget)), Breaker: breakerOf(c)},
	}
	return result
}

func chargesOf(results []policy.Result, over []overrides.Override) []charge {
	charges := make([]charge, len(results))
	for i, r := range results {
		charges[i] = charge{
			Key: r.Key(), Tier: r.Rule.Tier, Policy: r.Rule.Policy,
			Limits: r.Limits, Units: r.Cost, Costs: r.Rule.Costs, ByName: r.Costs, Shadow: r.Shadow,
		}
		for k := range over {
			if over[k].Subject == r.Subject && over[k].Policy == r.Rule.Name() {
				charges[i].Configured, charges[i].Override = r.Rule.Limits, &over[k]
			}
		}
	}
	return charges
}

func bansOf(b *stint.BanPolicy) *bans {
	if b == nil {
		return nil
	}
	result := &bans{After: b.After, Within: duration(b.Within), Forgive: duration(b.Forgive)}
	for _, d := range b.Durations {
		result.Durations = append(result.Durations, duration(d))
	}
	return result
}

// duration is a duration that prints in the form that configurations use: 1h, not 1h0m0s. In JSON,
// it is a number of seconds.
type duration time.Duration
