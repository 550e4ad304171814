// Package protocol defines the data that stores exchange with package stint and with the stack of
// package resilience, in addition to the requests and decisions that users see. Package driver
// exports these types for authors of stores. It cannot define them itself, because it imports
// package stint, which uses them.
package protocol

import "time"

// Terms are requirements that the stack adds to a request. The zero Terms add none.
type Terms struct {
	// Booked is the charge of an earlier booking of the same claims. It applies to Reserve, which
	// then moves the booking to an earlier time if possible: to the earliest time that is not
	// before the bookings that were ahead of it. The decision has the time of the booking. If the
	// booking is due, Reserve decides again. It charges now or, if that is not possible, books the
	// earliest time that delays no bookings except tentative ones.
	//
	// After an error, the caller must not use the booking, unless it is certain that the store did
	// nothing. If the booking is in an answer that arrives later, the stack gives it back.
	Booked *ChargeData
	// Tentative makes a booking that must be reserved again, with Booked, before it is used. A
	// tentative booking has no grace period: it expires at the time for which it was made.
	// Tentative applies to Reserve.
	Tentative bool
	// Lease charges units for use within this duration from now. They count from now on, and leave
	// the window as if they were charged at the end of the duration. Lease implies Fit. It applies
	// to limits with a log; other limits cannot be leased.
	Lease time.Duration
	// Fit lowers the cost to the number of units that there is room for, but not below one. The
	// decision's charge has the lowered cost. Fit applies to a Take with a single claim.
	Fit bool
	// Age is the time since the units of a Force were used, truncated to whole microseconds. A log
	// counts the units as if they were charged when they were used, and not at all if they have
	// left its window since. The charge's At is the time of their use. Age applies to a Force
	// without MaxWait. Concurrency limits ignore it: a place is taken now.
	Age time.Duration
	// Refilled is the duration for which meters have given back the units of a Force since they
	// were used, truncated to whole microseconds. A meter is charged only the remaining units, now.
	// Refilled may be shorter than Age, because a meter first gives back units that were used
	// earlier. It applies to a Force without MaxWait. Logs and concurrency limits ignore it.
	Refilled time.Duration
	// AtLeast makes a Force raise the usage of each limit to the cost: it charges only the missing
	// units, and none if the usage is at least the cost. It restores usage that the store has lost,
	// and may be repeated, even by several processes. The charge must not be amended. AtLeast
	// applies to a Force with one claim, without MaxWait or Hold.
	AtLeast bool
}

// ChargeData holds what a store knows about a charge, in addition to its claims. All fields except
// ID and At are also set if nothing was charged: on denials and peeks.
type ChargeData struct {
	// ID is unique to the charge; zero if nothing was charged.
	ID uint64
	// At is the time of the charge by the store's clock, in microseconds since the Unix epoch; zero
	// if nothing was charged. For a booking, it is the end of the period in which the booking may
	// be used.
	At int64
	// Now is the time at which the store answered, by its clock; zero if the store was not asked.
	Now int64
	// Generation is the generation of the first state. When a store creates a state again, for
	// instance after a reset, it draws a new generation. It then no longer amends charges of
	// earlier generations, unless they have an open hold. Generation is zero if there is no state,
	// because no charge counts anymore or because all limits are concurrency limits.
	Generation uint32
	// Fallback means that the charge was made in the memory of this process because the store could
	// not be reached. Only the process that made such a charge can amend it; the store cannot.
	Fallback bool
	// Leased has a bit for each claim that was charged from units that a process had leased, and
	// Leaser is the mark of that process. That process settles such claims in its memory while it
	// has the units, and after that in the store. Other processes do not change them. If Leased is
	// cleared, as it is in a charge that is passed on to another process, every process settles the
	// claims in the store.
	Leased, Leaser uint16
	// Hold is the Hold of the request.
	Hold time.Duration
	// RequestID is the ID of the request. After a refund, the store no longer knows the ID, so that
	// a repeat is charged again. If the request was repeated within IDLife, nothing is refunded.
	RequestID string
	IDLife    time.Duration
	// Others describes the states and claims after the first; nil if there is nothing to report
	// about them. It is a pointer because decisions are copied often.
	Others *OtherStates
}

// GenerationAt returns the generation of the ith state, in the order of the claims and, within a
// claim, of the limits' names. It returns 0 if there is no such state.
func (d *ChargeData) GenerationAt(i int) uint32 {
	if i == 0 {
		return d.Generation
	}
	if d.Others != nil && i <= len(d.Others.Generations) {
		return d.Others.Generations[i-1]
	}
	return 0
}

// IsLeased reports whether the ith claim was charged from leased units.
func (d *ChargeData) IsLeased(i int) bool { return d.Leased>>i&1 != 0 }

// AtOf returns the charge's At for the ith claim.
func (d *ChargeData) AtOf(i int) int64 {
	if i > 0 && d.Others != nil && d.Others.At != nil {
		return d.Others.At[i-1]
	}
	return d.At
}

// NowOf returns the time at which the store answered about the ith claim.
func (d *ChargeData) NowOf(i int) int64 {
	if i > 0 && d.Others != nil && d.Others.Now != nil {
		return d.Others.Now[i-1]
	}
	return d.Now
}

// OtherStates describes a charge's states and claims after the first. A claim has one state for
// each distinct name of its limits, not counting concurrency limits.
type OtherStates struct {
	// Generations are the generations of all states except the first, in the order of the claims
	// and, within a claim, of the names.
	Generations []uint32
	// At and Now hold the values of At and Now for the claims after the first, if each subject has
	// its own clock. If they are nil, the values of the charge apply to all claims.
	At, Now []int64
}

// ModeForce is a request mode that users cannot set; see package driver.
const ModeForce = 3
