package stint

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store remembers what subjects have used and decides on requests. Its clock
// rules: no caller passes a time. Every method is atomic with respect to every
// other, for one subject at least, and safe for concurrent use.
//
// Package storetest holds the contract as a test suite that every store passes.
type Store interface {
	// Take decides a request that passed Request.Validate. It charges every limit
	// of every claim, or none. An error means that no decision was made; whether
	// a charge was made is then unknown, but it is at most one.
	Take(ctx context.Context, r Request) (Decision, error)

	// Amend changes what an earlier decision charged, once: a second amendment
	// of the same charge changes nothing, save for Extend and Release. It
	// reports whether anything changed; nothing does if the charge is not FromStore. A charge or an amendment that does not pass
	// its Validate is refused with an [*InvalidError].
	Amend(ctx context.Context, c Charge, a Amendment) (bool, error)

	// Command acts on one subject outside of any decision. One that does not pass
	// its Validate is refused with an [*InvalidError].
	Command(ctx context.Context, c Command) error
}

// BatchStore is a [Store] that can decide many requests in one call.
type BatchStore interface {
	Store
	// TakeBatch decides each call as Take would, in the order of the batch, and fills
	// in its Decision or Err. One that fails does not concern the others.
	TakeBatch(ctx context.Context, batch []*Call)
}

// Call is one request of a batch, and its answer.
type Call struct {
	Request Request
	// Deadline is until when the caller waits: a store charges nothing later, if it can
	// tell. Zero is never.
	Deadline time.Time
	// Done, if it is set, may be called as soon as this call is answered, before the others
	// of its batch are. From then on the store neither reads nor writes the call.
	Done func()

	Decision Decision
	Err      error
}

// Amendment is a change to an earlier charge.
type Amendment struct {
	// Kind is what to do.
	Kind AmendmentKind
	// Cost is the true cost, for Settle. It applies to the limits in whose window
	// the charge still is. More than was charged becomes a debt if need be.
	Cost int64
	// MaxDebt bounds, for Settle, how many units above its capacity a limit may be
	// taken by this settlement; what is more is not charged. Zero means one capacity
	// of each limit.
	MaxDebt int64
	// KnownOnly keeps Extend from taking back a place that the store has forgotten. It is for
	// heartbeats on behalf of somebody who need not be trusted.
	KnownOnly bool
}

// Validate reports what is wrong with the amendment.
func (a Amendment) Validate() error {
	if a.Kind > Release || uint64(a.Cost) > uint64(MaxUnits) || uint64(a.MaxDebt) > uint64(MaxUnits) {
		return &InvalidError{fmt.Errorf("amendment %d to the cost %d with a debt of at most %d; want Settle, Extend or Release, and 0 to %d",
			a.Kind, a.Cost, a.MaxDebt, MaxUnits)}
	}
	return nil
}

// AmendmentKind says what an amendment does.
type AmendmentKind uint8

const (
	// Settle replaces the cost that was charged by the true one; zero gives
	// everything back, places under concurrency limits included.
	Settle AmendmentKind = iota
	// Extend is a heartbeat: it renews a holder's place under concurrency limits. One that
	// the store has forgotten it takes back, above the maximum if need be; but not
	// after the context's deadline, not if the charge was released or settled, and not for as long as a
	// place lasts after a [Reset]. It reports whether all places of the charge are held.
	Extend
	// Release gives a holder's place back. What other limits charged stays. A heartbeat
	// that may still be under way, because it was not answered, could take the place back until its
	// deadline: send Release after that. See [Hold].
	Release
)

// Command is an act on one subject.
type Command struct {
	Kind    CommandKind
	Subject string
	// Scope and Limits say what Reset forgets, and where GiveBack gives back.
	Scope  string
	Limits []Limit
	// For is the length of a Ban.
	For time.Duration
	// Units is how many GiveBack gives back.
	Units int64
}

// Validate reports everything that is wrong with the command.
func (c *Command) Validate() error {
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Kind > GiveBack {
		mistake("command %d; want Reset, Ban, Unban or GiveBack", c.Kind)
	}
	if c.Kind == GiveBack {
		if c.Units <= 0 || c.Units > MaxUnits {
			mistake("Units is %d; want 1 to %d", c.Units, MaxUnits)
		}
		claim := Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}
		errs = claim.mistakes(errs, "")
	} else if c.Subject == "" || len(c.Subject) > MaxSubject || len(c.Scope) > MaxSubject {
		mistake("the subject has %d bytes, its scope %d; want 1 and 0 to %d", len(c.Subject), len(c.Scope), MaxSubject)
	}
	if len(errs) == 0 {
		return nil
	}
	return &InvalidError{errors.Join(errs...)}
}

// CommandKind says what a command does.
type CommandKind uint8

const (
	// Reset forgets what the subject has used of the given limits in the given
	// scope, its bookings there, and its request IDs. Charges made before it can no
	// longer be amended, and places are lost.
	Reset CommandKind = iota
	// Ban denies the subject everything, in all scopes, for a time. A ban in force
	// that ends later stays as it is.
	Ban
	// Unban ends a ban and forgets earlier ones and the denials that led to them.
	Unban
	// GiveBack takes up to Units off what the subject has used of each of the
	// given limits in the given scope: the oldest first, and never what lies ahead,
	// bookings and leases. It is for charges that are not at hand, those of another
	// process for instance; whoever has the [Charge] settles it. Concurrency limits
	// are left alone, for their places are released.
	//
	// Where requests share an entry (see [Resolution]; in a fixed window all do), a lease
	// that ends in the one of now cannot be told from what was used: to give back more
	// than was used there gives back units that their holder may still use.
	//
	// It is not idempotent. After an error it is not known whether the units were given
	// back, and to ask again may give back twice as many.
	GiveBack
)
