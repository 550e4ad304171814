// Package protocol holds what stores and the stack in front of them tell each other beside what
// users ask and are answered. Package driver names its types for authors of stores. It is a package
// of its own because package stint, which driver imports, keeps values of these types.
package protocol

import "time"

// Terms are what the stack asks of a store beside what users ask. The zero Terms ask for nothing.
type Terms struct {
	// Booked is of the charge of an earlier booking of the same claims. Reserve then moves it to
	// the earliest time that is not before those who were ahead of it, if there is an earlier one,
	// and answers with the time that it has now. If that has come, Reserve decides again: now, or
	// at the earliest time that does not make anyone late who does not ask again.
	//
	// After an error, unless nothing was certainly done, the caller has no place any more. Where it
	// is may become known later, and then it is given back.
	Booked *ChargeData
	// Tentative makes a booking that its owner does not use before it has asked again, with Booked:
	// its instant is at the same time its end. For Reserve.
	Tentative bool
	// Lease charges units that are to be used during that time from now: they count from now on,
	// and as if they were charged at its end. It implies Fit. For logs, that is limits that can be
	// leased.
	Lease time.Duration
	// Fit lowers the cost to what there is room for, but not below one unit. The decision's charge
	// has the cost that was charged. For Take with a single claim.
	Fit bool
	// Age is how long ago the units of a Force were used, cut to whole microseconds. A log counts
	// them as if they were charged then, and not at all if they have left its window. The charge's
	// At is that instant. For Force without MaxWait. Concurrency limits ignore it: a place is taken
	// now.
	Age time.Duration
	// Refilled is for how long meters have given back units of a Force since they were used, cut to
	// whole microseconds: a meter is charged only the rest, now. It may be shorter than Age, since
	// a meter gives back what was used before as well. For Force without MaxWait. Logs and
	// concurrency limits ignore it.
	Refilled time.Duration
	// AtLeast has a Force charge each limit only what is missing of the cost: nothing if as much
	// is used, whatever it was charged for. It is for what the store knew and has lost, and may be
	// repeated, by several processes too. The charge is not to be amended. For Force with one
	// claim, without MaxWait and Hold.
	AtLeast bool
}

// ChargeData is what a store knows about a charge, beside its claims. All but ID and At is also
// filled in where nothing was charged: on denials and peeks.
type ChargeData struct {
	// ID is unique to the charge; zero if nothing was charged.
	ID uint64
	// At is the instant in the store's clock at which the charge counts, in microseconds since the
	// Unix epoch; zero if nothing was charged. For a booking it is the end of the time in which it
	// is to be used.
	At int64
	// Now is the instant in the store's clock at which it answered; zero if it was not asked.
	Now int64
	// Generation is that of the first state. A store draws a new one when it starts a state again,
	// after a reset for instance, and does not amend charges of an earlier generation. It is zero
	// if there is no state: nothing was charged, or only places.
	Generation uint32
	// Fallback says that the charge was made in the memory of this process because the store could
	// not be reached. Only the process that made such a charge can amend it; the store cannot.
	Fallback bool
	// Leased has a bit for each claim that was made from units that a process had leased, and
	// Leaser is the mark of that process. It settles them in its memory while it has the units, and
	// then in the store. Others change nothing of them. Where Leased is cleared, as it is in a
	// charge that is passed on to another process, every process settles them in the store.
	Leased, Leaser uint16
	// Hold is that of the request.
	Hold time.Duration
	// RequestID is the ID of the request. A refund forgets it, so that a repeat is charged again.
	// If the ID was repeated within IDLife, nothing is refunded.
	RequestID string
	IDLife    time.Duration
	// Others is about the states and claims after the first; nil if there is nothing to say about
	// them. It is behind a pointer because decisions are copied often.
	Others *OtherStates
}

// GenerationAt returns the generation of the ith of all states, in the order of the claims and
// their names; 0 if there is none.
func (d *ChargeData) GenerationAt(i int) uint32 {
	if i == 0 {
		return d.Generation
	}
	if d.Others != nil && i <= len(d.Others.Generations) {
		return d.Others.Generations[i-1]
	}
	return 0
}

// IsLeased reports whether the ith claim was made from leased units.
func (d *ChargeData) IsLeased(i int) bool { return d.Leased>>i&1 != 0 }

// AtOf returns the instant at which the ith claim counts.
func (d *ChargeData) AtOf(i int) int64 {
	if i > 0 && d.Others != nil && d.Others.At != nil {
		return d.Others.At[i-1]
	}
	return d.At
}

// NowOf returns the instant at which the store answered on the ith claim.
func (d *ChargeData) NowOf(i int) int64 {
	if i > 0 && d.Others != nil && d.Others.Now != nil {
		return d.Others.Now[i-1]
	}
	return d.Now
}

// OtherStates is what is known of a charge's states and claims after the first. A claim has one
// state for each distinct name of its limits, concurrency limits aside.
type OtherStates struct {
	// Generations are those of all states but the first, in the order of the claims and, within a
	// claim, of the names.
	Generations []uint32
	// At and Now are those of the claims after the first, if each subject has a clock of its own;
	// nil means those of the charge for all.
	At, Now []int64
}

// ModeForce is a mode of requests that users do not have: see package driver.
const ModeForce = 3
