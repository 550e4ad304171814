package dashboard

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/setinfo"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// outboundState is the state of a third-party API: how much of its limits all processes together
// have used, and statistics about the calls of this process.
type outboundState struct {
	Name   string   `json:"name"`
	Limits []string `json:"limits"`
	// Used and Capacity belong to the limit that is closest to full.
	Used     int64 `json:"used"`
	Capacity int64 `json:"capacity"`
	// Calls is the number of calls that were admitted. Waited is the number of calls that waited,
	// whether or not they were then admitted, and AverageWait is the mean of their waits. Waiting
	// is the number of calls that are waiting now. Denied is the number of calls that were refused.
	Calls       int64   `json:"calls"`
	Waited      int64   `json:"waited"`
	AverageWait float64 `json:"average_wait_seconds"`
	Waiting     int64   `json:"waiting"`
	Denied      int64   `json:"denied"`
	// CoolingUntil is the end of the pause that the API requested; nil if there is none.
	CoolingUntil *time.Time `json:"cooling_until"`
	// Problem explains why the usage is unknown; "" if it is known.
	Problem string `json:"problem,omitempty"`
}

// peekTime is the timeout for reading the usage of all APIs.
const peekTime = time.Second

// outbound returns the APIs in the configuration and the APIs that this process calls, sorted by
// name. The set may be nil.
func (d *dashboard) outbound(ctx context.Context, set *policy.Set) []*outboundState {
	list := []*outboundState{}
	at := func(name string, limits []stint.Limit) *outboundState {
		i, found := slices.BinarySearchFunc(list, name,
			func(s *outboundState, name string) int { return strings.Compare(s.Name, name) })
		if !found {
			list = slices.Insert(list, i, &outboundState{Name: name, Limits: textsOf(limits)})
		}
		return list[i]
	}
	if set != nil {
		for _, api := range setinfo.Config(set).Outbound {
			at(api.Name, api.Limits)
		}
	}
	for _, s := range d.c.Monitor.Outbound() {
		at(s.Name, s.Limits).count(&s)
	}
	if d.admin != nil {
		ctx, cancel := context.WithTimeout(ctx, peekTime)
		defer cancel()
		_ = control.Each(list, func(s *outboundState) error { // errors are stored in Problem
			s.peek(ctx, d.admin)
			return nil
		})
	}
	return list
}

func (s *outboundState) count(n *outbound.Stats) {
	s.Calls, s.Waited, s.Waiting, s.Denied = n.Calls, n.Waited, n.Waiting, n.Denied
	if n.Waited > 0 {
		s.AverageWait = n.TotalWait.Seconds() / float64(n.Waited)
	}
	s.cool(n.CoolingUntil)
}

func (s *outboundState) cool(until time.Time) {
	if !until.IsZero() && (s.CoolingUntil == nil || until.After(*s.CoolingUntil)) {
		s.CoolingUntil = &until
	}
}

func (s *outboundState) peek(ctx context.Context, admin *control.Admin) {
	s.use(admin.Take(ctx, control.TakeRequest{Target: control.Target{Subject: s.Name + ":api"}, Tier: "outbound",
		Policy: s.Name, Peek: true}))
}

// use updates s with the result of a peek. If the peek failed or the store is unavailable, it sets
// only Problem.
func (s *outboundState) use(result control.TakeResult, err error) {
	if err != nil {
		s.Problem = sentence(err)
		return
	}
	if result.Unavailable {
		s.Problem = "The store is unavailable."
		return
	}
	for _, l := range result.Limits {
		if s.Capacity == 0 || float64(l.Used)*float64(s.Capacity) > float64(s.Used)*float64(l.Capacity) {
			s.Used, s.Capacity = l.Used, l.Capacity
		}
	}
	if result.Banned {
		s.cool(time.Now().Add(time.Duration(result.RetryAfter * float64(time.Second))))
	}
}

func textsOf(limits []stint.Limit) []string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.String()
	}
	return texts
}
