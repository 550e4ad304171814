package storetest

import (
	"fmt"
	"strings"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// differ describes two decisions if they differ, and returns "" otherwise. It ignores charge ids,
// which differ between stores.
func differ(got, want stint.Decision) string {
	if g, w := whole(got), whole(want); g != w {
		return fmt.Sprintf("got\n%s, want\n%s", g, w)
	}
	return ""
}

// whole formats all parts of a decision that must be equal in all stores.
func whole(d stint.Decision) string {
	text := fmt.Sprintf("%s key %q", answer(d), d.Key())
	if d.Charge.Data().ID != 0 || d.Charge.Data().At != 0 {
		text += fmt.Sprintf(" charged %d at %d, amendable %v", d.Charge.Claims()[0].Cost,
			d.Charge.Data().At-epoch.UnixMicro(), d.Charge.Data().ID != 0)
	}
	for _, s := range d.States() {
		text += fmt.Sprintf(" %s", *s.Limit)
	}
	return text
}

func stateText(s stint.State) string {
	return fmt.Sprintf("used %d reset %v retry %v", s.Used, s.ResetAfter, s.RetryAfter)
}

func short(subject, prefix string) string { return strings.TrimPrefix(subject, prefix) }

func describe(r stint.Request, prefix string) string {
	var b strings.Builder
	b.WriteString([...]string{"take", "peek", "reserve", "force"}[r.Mode])
	for i := range r.Claims {
		c := &r.Claims[i]
		if i > 0 {
			b.WriteString(" and")
		}
		fmt.Fprintf(&b, " %d %v of %q", c.Cost, c.Costs, short(c.Subject, prefix))
		if c.Scope != "" {
			fmt.Fprintf(&b, " in %q", c.Scope)
		}
		if c.Shared {
			b.WriteString(" shared")
		}
		fmt.Fprintf(&b, " under %v", c.Limits)
	}
	if r.Terms().Lease > 0 {
		fmt.Fprintf(&b, " leased for %v", r.Terms().Lease)
	} else if r.Terms().Fit {
		b.WriteString(" fitted")
	}
	if r.Hold > 0 {
		fmt.Fprintf(&b, " held for %v", r.Hold)
	}
	if r.Terms().Tentative {
		b.WriteString(" tentatively")
	}
	if r.Terms().Booked != nil {
		fmt.Fprintf(&b, " moving up from %d", r.Terms().Booked.At-epoch.UnixMicro())
	}
	if r.ID != "" {
		fmt.Fprintf(&b, " id %q for %v", r.ID, r.IDLife)
	}
	if r.Mode == driver.ModeForce && r.MaxWait > 0 {
		fmt.Fprintf(&b, " in %v", r.MaxWait)
	}
	if t := r.Terms(); t.Age > 0 || t.Refilled > 0 {
		fmt.Fprintf(&b, " used %v ago, refilled for %v", t.Age, t.Refilled)
	}
	if r.Terms().AtLeast {
		b.WriteString(" at least")
	}
	if r.Mode == stint.ModeReserve && r.MaxWait > 0 {
		fmt.Fprintf(&b, " within %v", r.MaxWait)
	}
	if r.Bans != nil {
		fmt.Fprintf(&b, " bans %+v", *r.Bans)
	}
	return b.String()
}

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
