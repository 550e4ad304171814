package dashboard

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/server/control"
)

// outboundState is one of other people's APIs: how much of it all processes have used, and how the calls of this one fare.
type outboundState struct {
	Name   string   `json:"name"`
	Limits []string `json:"limits"`
	// Used and Capacity are those of the limit that is nearest to its end.
	Used     int64 `json:"used"`
	Capacity int64 `json:"capacity"`
	// Calls were made; Waited had to wait, on average for so long; Waiting wait now; Denied were given up.
	Calls       int64   `json:"calls"`
	Waited      int64   `json:"waited"`
	AverageWait float64 `json:"average_wait_ms"`
	Waiting     int64   `json:"waiting"`
	Denied      int64   `json:"denied"`
	// CoolingUntil is the end of the pause that the API has asked for; nil if there is none.
	CoolingUntil *time.Time `json:"cooling_until"`
	// Problem is why it is not known what is used.
	Problem string `json:"problem,omitempty"`
}

const (
	// peekTime is how long it may take to find out what is used of all APIs, and peeks how many are asked about at once.
	peekTime = time.Second
	peeks    = 8
)

// outbound returns the APIs of the configuration, and those that this process calls, by name. The set may be nil.
func (d *Dashboard) outbound(ctx context.Context, set *policy.Set) []outboundState {
	list := []outboundState{}
	at := func(name string, limits []stint.Limit) *outboundState {
		i, found := slices.BinarySearchFunc(list, name, func(s outboundState, name string) int { return strings.Compare(s.Name, name) })
		if !found {
			list = slices.Insert(list, i, outboundState{Name: name, Limits: textsOf(limits)})
		}
		return &list[i]
	}
	if set != nil {
		for _, api := range set.Outbound() {
			at(api.Name, api.Limits)
		}
	}
	for _, s := range d.c.Monitor.Outbound() {
		at(s.Name, s.Limits).count(&s)
	}
	if d.c.Desk != nil {
		d.peekAll(ctx, list)
	}
	return list
}

// count takes in what became of calls.
func (s *outboundState) count(n *outbound.Stats) {
	s.Calls, s.Waited, s.Waiting, s.Denied = n.Calls, n.Waited, n.Waiting, n.Denied
	if n.Waited > 0 {
		s.AverageWait = float64(n.TotalWait) / float64(n.Waited) / float64(time.Millisecond)
	}
	s.cool(n.CoolingUntil)
}

// cool takes in that there is a pause.
func (s *outboundState) cool(until time.Time) {
	if !until.IsZero() && (s.CoolingUntil == nil || until.After(*s.CoolingUntil)) {
		s.CoolingUntil = &until
	}
}

// peekAll asks what is used of all APIs.
func (d *Dashboard) peekAll(ctx context.Context, list []outboundState) {
	ctx, cancel := context.WithTimeout(ctx, peekTime)
	defer cancel()
	var work sync.WaitGroup
	free := make(chan struct{}, peeks)
	for i := range list {
		free <- struct{}{}
		work.Go(func() {
			list[i].peek(ctx, d.c.Desk)
			<-free
		})
	}
	work.Wait()
}

// peek asks what is used of an API.
func (s *outboundState) peek(ctx context.Context, desk *control.Desk) {
	told, err := desk.Take(ctx, control.Ask{Subject: s.Name + ":api", Tier: "outbound", Policy: s.Name, Peek: true})
	if err != nil {
		s.Problem = sentence(err)
		return
	}
	for _, l := range told.Limits {
		if s.Capacity == 0 || float64(l.Used)*float64(s.Capacity) > float64(s.Used)*float64(l.Capacity) {
			s.Used, s.Capacity = l.Used, l.Capacity
		}
	}
	if told.Banned {
		s.cool(time.Now().Add(time.Duration(told.RetryAfter * float64(time.Second))))
	}
}

func textsOf(limits []stint.Limit) []string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.String()
	}
	return texts
}
