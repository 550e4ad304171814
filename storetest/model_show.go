package storetest

import (
	"fmt"
	"strings"

	"github.com/stint-limiter/stint"
)

// differ names the first difference between two decisions, "" if there is none. Charge ids are each
// store's own.
func differ(got, want stint.Decision) string {
	switch {
	case got.Allowed != want.Allowed:
		return fmt.Sprintf("Allowed is %v, want %v", got.Allowed, want.Allowed)
	case got.Repeat != want.Repeat:
		return fmt.Sprintf("Repeat is %v, want %v", got.Repeat, want.Repeat)
	case got.Banned != want.Banned:
		return fmt.Sprintf("Banned is %v, want %v", got.Banned, want.Banned)
	case got.Key() != want.Key():
		return fmt.Sprintf("Key is %q, want %q", got.Key(), want.Key())
	case got.RetryAfter != want.RetryAfter:
		return fmt.Sprintf("RetryAfter is %v, want %v", got.RetryAfter, want.RetryAfter)
	case (got.Charge.ID == 0) != (want.Charge.ID == 0):
		return fmt.Sprintf("Charge is %+v, want %+v", got.Charge, want.Charge)
	case got.Charge.At != want.Charge.At:
		return fmt.Sprintf("Charge.At is %d, want %d", got.Charge.At-epoch.UnixMicro(),
			want.Charge.At-epoch.UnixMicro())
	case want.Charge.ID != 0 && got.Charge.Claim.Cost != want.Charge.Claim.Cost:
		return fmt.Sprintf("Charge's Cost is %d, want %d", got.Charge.Claim.Cost, want.Charge.Claim.Cost)
	case len(got.States()) != len(want.States()):
		return fmt.Sprintf("%d states, want %d", len(got.States()), len(want.States()))
	}
	for i, g := range got.States() {
		w := want.States()[i]
		if g.Limit == nil || *g.Limit != *w.Limit {
			return fmt.Sprintf("state %d is of limit %v, want %v", i, g.Limit, w.Limit)
		}
		if g.Used != w.Used || g.ResetAfter != w.ResetAfter || g.RetryAfter != w.RetryAfter {
			return fmt.Sprintf("state %d (%s) is %s, want %s", i, w.Limit, stateText(g), stateText(w))
		}
	}
	return ""
}

func stateText(s stint.State) string {
	return fmt.Sprintf("used %d reset %v retry %v", s.Used, s.ResetAfter, s.RetryAfter)
}

func short(subject, prefix string) string { return strings.TrimPrefix(subject, prefix) }

// describe writes a request in one line.
func describe(r stint.Request, prefix string) string {
	var b strings.Builder
	b.WriteString([...]string{"take", "peek", "reserve", "force"}[r.Mode])
	for i, c := range allClaims(r) {
		if i > 0 {
			b.WriteString(" and")
		}
		fmt.Fprintf(&b, " %d of %q", c.Cost, short(c.Subject, prefix))
		if c.Scope != "" {
			fmt.Fprintf(&b, " in %q", c.Scope)
		}
		if c.Shared {
			b.WriteString(" shared")
		}
		fmt.Fprintf(&b, " under %v", c.Limits)
	}
	if r.Lease > 0 {
		fmt.Fprintf(&b, " leased for %v", r.Lease)
	} else if r.Fit {
		b.WriteString(" fitted")
	}
	if r.Booked != 0 {
		fmt.Fprintf(&b, " moving up from %d", r.Booked-epoch.UnixMicro())
	}
	if r.ID != "" {
		fmt.Fprintf(&b, " id %q for %v", r.ID, r.IDLife)
	}
	if r.Mode == stint.ModeForce && r.MaxWait > 0 {
		fmt.Fprintf(&b, " in %v", r.MaxWait)
	}
	if r.Mode == stint.ModeReserve && r.MaxWait > 0 {
		fmt.Fprintf(&b, " within %v", r.MaxWait)
	}
	if r.Bans != nil {
		fmt.Fprintf(&b, " bans %+v", *r.Bans)
	}
	return b.String()
}

// answer writes a decision in a few words.
func answer(d stint.Decision) string {
	var words []string
	add := func(when bool, word string) {
		if when {
			words = append(words, word)
		}
	}
	add(d.Allowed, "ok")
	add(!d.Allowed, "denied")
	add(d.Repeat, "repeat")
	add(d.Banned, "banned")
	add(d.RetryAfter != 0, "retry "+d.RetryAfter.String())
	for _, s := range d.States() {
		add(true, fmt.Sprintf("[%s]", stateText(s)))
	}
	return strings.Join(words, " ")
}
