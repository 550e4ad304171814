package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/outbound"
	"github.com/stint-limiter/stint/policy"
)

// table is everybody's requests and windows: the callers, whoever else has come,
// and the APIs that we call.
type table struct {
	store   stint.Store
	guard   *policy.Guard
	book    *ledger
	apis    *outbound.Registry
	callers []*caller
	peer    netip.Addr
}

// lines returns the table as text. It can be had after the context has ended too.
func (t *table) lines(ctx context.Context) []string {
	ctx = context.WithoutCancel(ctx)
	lines := []string{line("subject", "habit", "tier", "allowed", "denied", "windows")}
	accounts, expected := t.book.list(), make(map[string]bool)
	for _, c := range t.callers {
		e := t.guard.Set().Explain(c.input(t.peer))
		a := account{tier: e.Tier}
		if len(e.Counts) > 0 {
			a.key = e.Counts[0].Key
		}
		if i := slices.IndexFunc(accounts, func(b account) bool { return b.key == a.key }); i >= 0 {
			a = accounts[i]
		}
		expected[a.key] = true
		lines = append(lines, t.row(ctx, &a, c.habit))
	}
	for i := range accounts {
		if a := &accounts[i]; !expected[a.key] {
			lines = append(lines, t.row(ctx, a, "you, or somebody else"))
		}
	}
	for _, s := range t.apis.Stats() {
		if s.Calls > 0 {
			lines = append(lines, t.apiRow(ctx, &s))
		}
	}
	return lines
}

// row is an account's line: what was decided, and how full its windows are now.
func (t *table) row(ctx context.Context, a *account, habit string) string {
	text := ""
	if a.request.Subject != "" {
		d, err := t.store.Take(ctx, a.request)
		text = windows(&d, err, a.names)
	}
	return line(a.key, habit, a.tier, a.allowed, a.denied, text)
}

// apiRow is the line of an API that we call. Those who wait have booked their
// places: they are in the windows already.
func (t *table) apiRow(ctx context.Context, s *outbound.Stats) string {
	text := ""
	if api, err := t.apis.API(s.Name); err == nil {
		d, err := api.Peek(ctx)
		text = fmt.Sprintf("%s (%d waiting)", windows(&d, err, nil), s.Waiting)
	}
	return line(s.Name+":api", fmt.Sprintf("%d workers that wait", workers), "outbound", s.Calls, s.Denied, text)
}

// line is a row of the table, or its heading.
func line(subject, habit, tier string, allowed, denied any, windows string) string {
	return strings.TrimRight(fmt.Sprintf("%-22s %-22s %-10s %7v %7v  %s", subject, habit, tier, allowed, denied, windows), " ")
}

// windows shows a decision: a bar as full as the fullest of its windows, and how
// much of each limit is used. The names tell the limits of policies from those of
// the tier.
func windows(d *stint.Decision, err error, names []string) string {
	switch {
	case err != nil:
		return err.Error()
	case d.Banned:
		return fmt.Sprintf("banned for %v", max(d.RetryAfter, time.Second).Round(time.Second))
	}
	filled := int64(0)
	var parts []string
	for i, s := range d.States() {
		if capacity := s.Limit.Capacity(); capacity > 0 {
			filled = max(filled, min(s.Used, capacity)*10/capacity)
		}
		part := fmt.Sprintf("%d of %s", s.Used, s.Limit.WithName(""))
		if i < len(names) && names[i] != "" {
			part = names[i] + " " + part
		}
		parts = append(parts, part)
	}
	bar := strings.Repeat("#", int(filled)) + strings.Repeat(".", int(10-filled))
	text := fmt.Sprintf("[%s] %s", bar, strings.Join(parts, ", "))
	if d.Degraded {
		text += " (local: Redis does not answer)"
	}
	return text
}
