package main

import (
	"cmp"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/resilience"
)

// explanation is how a request would be judged, in the form in which it is printed. Its JSON form is for programs: keys
// may be added to it, and those that are there stay.
type explanation struct {
	Method string `json:"method"`
	Host   string `json:"host,omitempty"`
	Path   string `json:"path"`
	// Also are other readings of the request: they count as well.
	Also []string `json:"also,omitempty"`
	// Peer is the other end of the connection, "unix" if it has no address, and Client who is behind it.
	Peer   string `json:"peer"`
	Client string `json:"client"`
	// PeerAssumed says that nobody gave the peer.
	PeerAssumed bool `json:"peer_assumed,omitempty"`
	// Skipped is the policy that exempts the request. There is nothing else then.
	Skipped string `json:"skipped,omitempty"`
	*judgement
}

// judgement is what there is to say of a request that is not exempt.
type judgement struct {
	Tier      string       `json:"tier"`
	Route     string       `json:"route,omitempty"`
	Cost      int64        `json:"cost"`
	Tiers     []considered `json:"tiers"`
	Policies  []considered `json:"policies"`
	Counts    []charge     `json:"counts"`
	RequestID requestID    `json:"request_id"`
	Failure   failure      `json:"failure"`
	Bans      *bans        `json:"bans,omitempty"`
	After     string       `json:"after,omitempty"`
}

type considered struct {
	Name    string `json:"name"`
	Applies bool   `json:"applies"`
	Why     string `json:"why"`
}

// charge is something that the request is charged to.
type charge struct {
	Key    string        `json:"key"`
	Tier   string        `json:"tier"`
	Policy string        `json:"policy,omitempty"` // without it the limits are the tier's own
	Limits []stint.Limit `json:"limits"`
	Units  int64         `json:"units"`
	Costs  bool          `json:"costs"` // units are of cost, and not requests
	Shadow bool          `json:"shadow,omitempty"`
}

// requestID is how requests name themselves.
type requestID struct {
	Header string `json:"header,omitempty"`
	Named  bool   `json:"named"`
}

type failure struct {
	Mode   string   `json:"mode"`
	Budget duration `json:"budget"`
}

type bans struct {
	After     int        `json:"after"`
	Within    duration   `json:"within,omitempty"`
	Durations []duration `json:"durations,omitempty"`
	Forgive   duration   `json:"forgive,omitempty"`
}

// explanationOf returns what is to be told of a request.
func explanationOf(in *policy.Input, e *policy.Explanation) *explanation {
	told := &explanation{Method: in.Method, Host: in.Host, Path: e.Path, Also: e.Also, Peer: unixPeer, Client: e.Client, Skipped: e.Skipped}
	if in.Peer.IsValid() {
		told.Peer = in.Peer.String()
	}
	if e.Skipped != "" {
		return told
	}
	told.judgement = &judgement{
		Tier: e.Tier, Route: e.Route, Cost: e.Cost,
		Tiers: consideredOf(e.Tiers), Policies: consideredOf(e.Policies), Counts: chargesOf(e.Counts),
		RequestID: requestID{e.RequestID, e.Named}, Bans: bansOf(e.Bans), After: e.After,
		Failure: failure{Mode: e.Failure.Mode.String(), Budget: duration(cmp.Or(e.Failure.Budget, resilience.DefaultBudget))},
	}
	return told
}

func consideredOf(all []policy.Considered) []considered {
	told := make([]considered, len(all))
	for i, c := range all {
		told[i] = considered(c)
	}
	return told
}

func chargesOf(counts []policy.Count) []charge {
	told := make([]charge, len(counts))
	for i, c := range counts {
		told[i] = charge{
			Key: c.Key, Tier: c.Rule.Tier, Policy: c.Rule.Policy,
			Limits: c.Rule.Limits, Units: c.Units, Costs: c.Rule.Costs, Shadow: c.Shadow,
		}
	}
	return told
}

func bansOf(b *stint.BanPolicy) *bans {
	if b == nil {
		return nil
	}
	told := &bans{After: b.After, Within: duration(b.Within), Forgive: duration(b.Forgive)}
	for _, d := range b.Durations {
		told.Durations = append(told.Durations, duration(d))
	}
	return told
}

// duration is a time as configurations have it: 1h, not 1h0m0s.
type duration time.Duration
