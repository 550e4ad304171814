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
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/memorystore"
)

// sabotage is a defect with which the judge is tried: the server lies, or a process treats its
// callers or the server's answers wrongly. Its value is its name; "" is honest.
type sabotage string

const (
	// Of the server.
	dropsDebts      sabotage = "drops debts"              // what is charged above capacity is acknowledged and dropped
	boundsDebts     sabotage = "bounds debts"             // of a debt, two units are charged at most
	chargesTwice    sabotage = "charges twice"            // what is owed is charged twice
	chargesNow      sabotage = "charges as of now"        // what is owed is charged as of now, not as of its grant
	keepsRefunds    sabotage = "keeps refunds"            // what is given back is acknowledged and kept
	refundsAged     sabotage = "refunds aged charges"     // a refund after the window takes units of others
	refundsReset    sabotage = "refunds before a reset"   // a refund after a reset takes units of others
	dropsRaises     sabotage = "drops raises"             // what a charge is raised by is acknowledged and dropped
	dropsPlaces     sabotage = "drops places"             // places are taken, and free again at once
	admitsEverybody sabotage = "admits everybody"         // denials are turned into charges
	deniesSome      sabotage = "denies some"              // every limit is one unit too small
	admitsBanned    sabotage = "admits banned"            // a ban is announced, and not in force
	bansLonger      sabotage = "bans longer"              // a ban lasts for longer than its policy says
	bansUntilRetry  sabotage = "bans until there is room" // a ban seems to last until the limit has room
	keepsBookings   sabotage = "keeps bookings"           // what is booked ahead stays when it is given up
	dropsBookings   sabotage = "drops bookings"           // what is booked ahead is not counted
	movesUnchecked  sabotage = "moves bookings unchecked" // a booking that is moved is admitted at once

	// Of a process.
	ignoresLate   sabotage = "ignores late answers"     // what a late answer charged is charged again, or stays
	ignoresBooked sabotage = "ignores late bookings"    // a booking that is answered late stays, under the mode allow
	hurries       sabotage = "hurries with its callers" // a caller's short deadline is the time budget
	dawdles       sabotage = "dawdles"                  // settlements and decisions wait for the server for a second
	hidesRefunds  sabotage = "hides refunds"            // a refund without the server is reported as not applied

	// Of the server, about holds.
	dropsHolds     sabotage = "drops holds"        // what is held is free again at once
	settlesAgain   sabotage = "settles again"      // a settlement that finds no hold charges the truth all the same
	ignoresBeats   sabotage = "ignores heartbeats" // heartbeats are acknowledged, and keep nothing
	dropsTotals    sabotage = "drops totals"       // what heartbeats report is acknowledged and dropped
	keepsExpired   sabotage = "keeps what expires" // what expires stays charged
	forgetsIDs     sabotage = "forgets ids"        // heartbeats do not prolong ids
	settlesOthers  sabotage = "settles others"     // a settlement releases the units of another hold, too
	settlesNothing sabotage = "settles nothing"    // a settlement is acknowledged, and the hold left to expire

	// At scale.
	stampsAtStart sabotage = "stamps leases at their start" // a lease is stamped when it begins, not when it ends
	freesLeases   sabotage = "frees leases"                 // the units of one lease in four are free again at once
	refundsTwice  sabotage = "refunds twice"                // what is given back is given back twice
	freesParents  sabotage = "frees parents"                // only the first subject of a request is charged
	shortWindows  sabotage = "short windows"                // windows are a fiftieth too short
	losesCharges  sabotage = "loses charges"                // one charge in a hundred is lost
	swapsAnswers  sabotage = "swaps answers"                // two requests of one batch get each other's answers
	dropsNotAfter sabotage = "drops the not-after"          // a request is decided however late it comes
	runsTwice     sabotage = "runs twice"                   // a request whose reply is lost is sent and decided again
	answersOld    sabotage = "answers with what is old"     // an older answer replaces a newer one
)

func (s sabotage) take(e *memorystore.Store, r stint.Request) (stint.Decision, error) {
	ctx := context.Background()
	if s == "" {
		return e.Take(ctx, r)
	}
	r.Claims = slices.Clone(r.Claims)
	switch {
	case s == dropsDebts && r.Mode == driver.ModeForce:
		r.Mode = stint.ModePeek
		d, err := e.Take(ctx, r)
		d.Allowed, d.Charge.Data().ID = true, 1
		return d, err
	case s == boundsDebts && r.Mode == driver.ModeForce:
		for i := range r.Claims {
			r.Claims[i].Cost = min(r.Claims[i].Cost, 2)
		}
	case s == chargesNow && r.Mode == driver.ModeForce:
		r.Terms().Age, r.Terms().Refilled = 0, 0
	case s == movesUnchecked && r.Terms().Booked != nil:
		c := driver.NewCharge(r.Claims, *r.Terms().Booked)
		if _, err := e.Amend(ctx, c, stint.Amendment{Kind: stint.AmendSettle}); err != nil {
			return stint.Decision{}, err
		}
		*r.Terms() = driver.Terms{}
		r.Mode, r.MaxWait = driver.ModeForce, 0
	case s == deniesSome:
		r.Claims[0].Limits = slices.Clone(r.Claims[0].Limits)
		if l := &r.Claims[0].Limits[0]; l.Max > 1 && l.Burst == 0 {
			l.Max--
		}
	case s == dropsHolds && r.Hold > 0:
		r.Hold = time.Millisecond
	case s == keepsExpired && r.Hold > 0:
		for i := range r.Claims {
			r.Claims[i].Limits = slices.Clone(r.Claims[i].Limits)
			for k := range r.Claims[i].Limits {
				r.Claims[i].Limits[k].ChargeExpired = true
			}
		}
	case s == stampsAtStart && r.Terms().Lease > 0:
		r.Terms().Lease = time.Microsecond
	case s == shortWindows:
		for i := range r.Claims {
			r.Claims[i].Limits = slices.Clone(r.Claims[i].Limits)
			for k := range r.Claims[i].Limits {
				r.Claims[i].Limits[k].Window -= r.Claims[i].Limits[k].Window / 50
			}
		}
	case s == bansLonger && r.Bans != nil:
		bans := *r.Bans
		bans.Durations = []time.Duration{3 * time.Second}
		r.Bans = &bans
	}
	d, err := e.Take(ctx, r)
	switch {
	case err != nil:
	case s == bansUntilRetry && d.Banned:
		for _, u := range d.Usages() {
			d.BanLeft = max(d.BanLeft, u.ResetAfter)
		}
	case s == chargesTwice && r.Mode == driver.ModeForce && !d.Repeat:
		r.ID += "again"
		_, err = e.Take(ctx, r)
	case s == admitsBanned && d.Banned && !slices.Contains(r.Bans.Durations, d.BanLeft):
		r.Bans = nil
		return e.Take(ctx, r)
	case s == admitsEverybody && !d.Allowed && r.Mode == stint.ModeTake && d.RetryAfter != stint.Never:
		r.Mode = driver.ModeForce
		return e.Take(ctx, r)
	case !d.Allowed || d.Charge.Data().ID == 0:
	case s == freesLeases && r.Terms().Lease > 0 && d.Charge.Data().ID%4 == 0,
		s == losesCharges && d.Charge.Data().ID%100 == 0,
		s == dropsBookings && d.RetryAfter > 0:
		_, err = e.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendSettle})
	case s == freesParents:
		for i := 1; i < len(r.Claims) && err == nil; i++ {
			_, err = e.Amend(ctx, d.Charge.Part(i), stint.Amendment{Kind: stint.AmendSettle})
		}
	case s == dropsPlaces &&
		slices.ContainsFunc(r.Claims[0].Limits, func(l stint.Limit) bool {
			return l.Algorithm == stint.AlgorithmConcurrency
		}):
		_, err = e.Amend(ctx, d.Charge, stint.Amendment{Kind: stint.AmendRelease})
	}
	return d, err
}

func (s sabotage) amend(e *memorystore.Store, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	settles, claim := a.Kind == stint.AmendSettle, c.Claims()[0]
	lowers := settles && a.Cost < claim.Cost
	switch {
	case s == dropsRaises && settles && a.Cost > claim.Cost, s == keepsRefunds && lowers,
		s == keepsBookings && settles && time.UnixMicro(c.Data().At).After(time.Now()),
		s == dropsPlaces && !settles:
		return stint.Amended{Changed: true, Charged: a.Cost}, nil
	}
	if c.Data().Hold > 0 {
		return s.amendHold(e, c, a)
	}
	done, err := e.Amend(context.Background(), c, a)
	if s == refundsTwice && lowers && done.Changed && err == nil {
		err = e.Command(context.Background(), stint.Command{Kind: stint.CommandGiveBack, Subject: claim.Subject,
			Limits: claim.Limits, Units: claim.Cost - a.Cost})
	}
	aged := time.Since(time.UnixMicro(c.Data().At)) >= claim.Limits[0].Window
	if lowers && (s == refundsAged && aged || s == refundsReset && !aged && !done.Changed) {
		err = e.Command(context.Background(), stint.Command{Kind: stint.CommandGiveBack, Subject: claim.Subject,
			Limits: claim.Limits[:1], Units: claim.Cost - a.Cost})
	}
	return done, err
}

func (s sabotage) amendHold(e *memorystore.Store, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	settles, ctx := a.Kind == stint.AmendSettle, context.Background()
	switch {
	case s == settlesNothing && settles:
		return stint.Amended{Changed: true, Charged: a.Cost}, nil
	case s == ignoresBeats && !settles:
		return stint.Amended{Changed: true}, nil
	case s == dropsTotals && !settles:
		a.Cost, a.Costs = 0, nil
	case s == forgetsIDs:
		c.Data().RequestID, c.Data().IDLife = "", 0
	}
	done, err := e.Amend(ctx, c, a)
	switch claim := c.Claims()[0]; {
	case err != nil || !settles:
	case s == settlesAgain && !done.Changed && a.Costs == nil:
		claim.Cost = a.Cost
		_, err = e.Take(ctx, stint.Request{Claims: []stint.Claim{claim}, Mode: driver.ModeForce})
	case s == settlesOthers && done.Changed:
		err = e.Command(ctx, stint.Command{Kind: stint.CommandReset, Subject: claim.Subject, Limits: claim.Limits[:1]})
	}
	return done, err
}

// confused gives the callers of a batch wrong answers. Last has the latest of each subject.
func (s sabotage) confused(batch []*driver.Call, last map[string]stint.Decision) {
	for i, b := range batch {
		switch subject := b.Request.Claims[0].Subject; {
		case b.Err != nil:
		case s == swapsAnswers && i%2 == 1 && batch[i-1].Err == nil:
			b.Decision.Allowed, batch[i-1].Decision.Allowed = batch[i-1].Decision.Allowed, b.Decision.Allowed
		case s == answersOld && len(b.Request.Claims) == 1 && b.Request.Terms().Lease == 0:
			older, known := last[subject]
			if last[subject] = b.Decision; known && len(last)%8 == 0 {
				b.Decision = older
			}
		}
	}
}

// answered says what a process makes of the answer to a call that it asked the server.
func (s sabotage) answered(c *driver.Call) {
	late := c.Err == nil && !c.Deadline.IsZero() && time.Now().After(c.Deadline)
	booked := c.Request.Mode == stint.ModeReserve && c.Request.Failure != nil &&
		c.Request.Failure.Mode == stint.FailAllow
	if late && (s == ignoresLate || s == ignoresBooked && booked) {
		c.Decision, c.Err = stint.Decision{}, failure("take", context.DeadlineExceeded)
	}
}

// The judge finds every defect, by what callers were told.
func TestSabotageIsFound(t *testing.T) {
	testkit.SkipUnderRace(t)
	for _, test := range []struct {
		sabotage sabotage
		draft    func(seed uint64) *plan
		want     string   // what the judge objects to
		seeds    []uint64 // of histories in which it shows, as a rule: the scheduler has a say, too
	}{
		{dropsDebts, draft, "ledger over", nil},
		{boundsDebts, draft, "ledger over", []uint64{377}},
		{chargesTwice, draft, "ledger room", []uint64{384}},
		{chargesNow, draft, "room", nil},
		{keepsRefunds, draft, "ledger room", nil},
		{refundsAged, draft, "over", []uint64{1118}},
		{refundsReset, draft, "over", []uint64{109}},
		{dropsRaises, draft, "ledger", nil},
		{dropsPlaces, draft, "places", nil},
		{admitsEverybody, draft, "over", nil},
		{deniesSome, draft, "room", nil},
		{admitsBanned, draft, "ban", nil},
		{bansLonger, draft, "ban", nil},
		{bansUntilRetry, draft, "ban", nil},
		{keepsBookings, draft, "ledger", nil},
		{dropsBookings, draft, "over", nil},
		{movesUnchecked, draft, "over", nil},
		{ignoresLate, draft, "ledger room", []uint64{77, 362}},
		{ignoresBooked, draft, "ledger", []uint64{77}},
		{hurries, draft, "calm", nil},
		{dawdles, draft, "budget", nil},
		{hidesRefunds, draft, "ledger", nil},
		{dropsHolds, draftStreams, "over once", nil},
		{settlesAgain, draftStreams, "ledger", nil},
		{ignoresBeats, draftStreams, "over once", nil},
		{dropsTotals, draftStreams, "ledger", nil},
		{keepsExpired, draftStreams, "ledger room", []uint64{251}},
		{forgetsIDs, draftStreams, "twice", []uint64{189}},
		{settlesOthers, draftStreams, "over", nil},
		{settlesNothing, draftStreams, "ledger room", nil},
	} {
		t.Run(string(test.sabotage), func(t *testing.T) {
			left := strings.Fields(test.want)
			for n := 0; len(left) > 0; n++ {
				if n > 10_000 {
					t.Fatalf("not found in %d histories: %v", n, left)
				}
				s := uint64(n)
				if n < len(test.seeds) {
					s = test.seeds[n]
				}
				h := watched(t, fmt.Sprintf("seed %d, %s", s, test.sabotage), func() *history {
					p := test.draft(s)
					p.sabotage = test.sabotage
					if test.sabotage == ignoresBooked {
						for i := range p.subjects {
							p.subjects[i].mode = stint.FailAllow
						}
					}
					return p.happen()
				})
				for _, found := range verdict(h) {
					left = slices.DeleteFunc(left, func(what string) bool { return strings.HasPrefix(found, what) })
				}
			}
		})
	}
}
