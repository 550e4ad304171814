package histories

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/memorystore"
)

// sabotage is a lie of the server's, with which the judge is tried.
type sabotage uint8

const (
	honest          sabotage = iota
	dropsDebts               // what is charged above capacity is acknowledged and dropped
	keepsRefunds             // what is given back is acknowledged and kept
	dropsPlaces              // places are taken, and free again at once
	admitsEverybody          // denials are turned into charges
	deniesSome               // every limit is one unit too small
	admitsBanned             // a ban is announced, and not in force
	bansLonger               // a ban lasts for longer than its policy says
	chargesTwice             // what is owed is charged twice
	keepsBookings            // what is booked ahead stays when it is given up
	dropsRaises              // what a charge is raised by is acknowledged and dropped
)

var sabotageNames = [...]string{"honest", "drops debts", "keeps refunds", "drops places", "admits everybody",
	"denies some", "admits banned", "bans longer", "charges twice",
	"keeps bookings", "drops raises"}

func (s sabotage) String() string { return sabotageNames[s] }

func (s sabotage) take(e *memorystore.Store, r stint.Request) (stint.Decision, error) {
	r.Claims = slices.Clone(r.Claims)
	ctx := context.Background()
	switch {
	case s == dropsDebts && r.Mode == driver.ModeForce:
		r.Mode = stint.ModePeek
		d, err := e.Take(ctx, r)
		d.Allowed, d.Charge.Data().ID = true, 1
		return d, err
	case s == deniesSome:
		r.Claims[0].Limits = slices.Clone(r.Claims[0].Limits)
		if l := &r.Claims[0].Limits[0]; l.Max > 1 && l.Burst == 0 {
			l.Max--
		}
	case s == bansLonger && r.Bans != nil:
		bans := *r.Bans
		bans.Durations = []time.Duration{3 * time.Second}
		r.Bans = &bans
	}
	d, err := e.Take(ctx, r)
	switch {
	case err != nil:
	case s == chargesTwice && r.Mode == driver.ModeForce && !d.Repeat:
		r.ID += "again"
		_, err = e.Take(ctx, r)
	case s == admitsBanned && d.Banned && !slices.Contains(r.Bans.Durations, d.BanLeft):
		r.Bans = nil
		return e.Take(ctx, r)
	case s == admitsEverybody && !d.Allowed && r.Mode == stint.ModeTake && d.RetryAfter != stint.Never:
		r.Mode = driver.ModeForce
		return e.Take(ctx, r)
	case s == dropsPlaces && d.Allowed &&
		slices.ContainsFunc(r.Claims[0].Limits, func(l stint.Limit) bool {
			return l.Algorithm == stint.AlgorithmConcurrency
		}):
		_, err = e.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendRelease})
	}
	return d, err
}

func (s sabotage) amend(e *memorystore.Store, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	if s == dropsRaises && a.Kind == stint.AmendSettle && a.Cost > c.Claims()[0].Cost {
		return stint.Amended{Changed: true, Charged: a.Cost}, nil
	}
	if s == keepsBookings && a.Kind == stint.AmendSettle && time.UnixMicro(c.Data().At).After(time.Now()) {
		return stint.Amended{Changed: true}, nil
	}
	if s == keepsRefunds && a.Kind == stint.AmendSettle && a.Cost < c.Claims()[0].Cost || s == dropsPlaces &&
		a.Kind != stint.AmendSettle {
		return stint.Amended{Changed: true, Charged: a.Cost}, nil
	}
	return e.Amend(context.Background(), c, a)
}

// The judge finds out a server that lies, by what callers were told.
func TestSabotageIsFound(t *testing.T) {
	for _, test := range []struct {
		sabotage sabotage
		want     []string
	}{
		{dropsDebts, []string{"ledger", "over"}},
		{keepsRefunds, []string{"ledger", "room"}},
		{dropsPlaces, []string{"places"}},
		{admitsEverybody, []string{"over"}},
		{deniesSome, []string{"room"}},
		{admitsBanned, []string{"ban"}},
		{bansLonger, []string{"ban"}},
		{chargesTwice, []string{"ledger", "room"}},
		{keepsBookings, []string{"ledger"}},
		{dropsRaises, []string{"ledger"}},
	} {
		t.Run(test.sabotage.String(), func(t *testing.T) {
			left := slices.Clone(test.want)
			for s := uint64(1); len(left) > 0; s++ {
				if s > 2000 {
					t.Fatalf("not found in %d histories: %v", s-1, left)
				}
				h := watched(t, fmt.Sprintf("seed %d, %s", s, test.sabotage), func() *history {
					p := draft(s)
					p.sabotage = test.sabotage
					return p.happen()
				})
				for _, found := range verdict(h) {
					left = slices.DeleteFunc(left, func(what string) bool { return strings.HasPrefix(found, what) })
				}
			}
		})
	}
}
