package stint

import (
	"context"
	"time"
)

// Store remembers what subjects have used, and decides requests. It uses its own clock: no caller
// passes a time. Every method is atomic with respect to every other, at least for one subject, and
// safe for concurrent use.
//
// Package storetest tests stores against this contract.
type Store interface {
	// Take decides a request that passed Request.Validate. It charges every limit of every claim,
	// or none. After an error, it is unknown whether the request was charged; it was charged at
	// most once. The caller may reuse r.Claims once Take has returned, so a store must copy claims
	// that it keeps. What the claims refer to, such as Limits, never changes.
	Take(ctx context.Context, r Request) (Decision, error)

	// Amend changes what an earlier decision charged. A charge can be settled once or, if the
	// request had a Hold, once for each name in Costs. [AmendExtend] can be repeated. Nothing
	// changes if the charge was made without the store or from leased units: only the process that
	// made such a charge can amend it; see package driver. An amendment that does not pass
	// Amendment.Validate is refused with an [*InvalidError].
	Amend(ctx context.Context, c Charge, a Amendment) (Amended, error)

	// Command acts on one subject outside of any decision. A command that does not pass
	// Command.Validate is refused with an [*InvalidError].
	Command(ctx context.Context, c Command) error
}

// Amendment is a change to an earlier charge. The zero Amendment is not valid: it has no Kind.
type Amendment struct {
	// Kind selects what to do. It must be set.
	Kind AmendmentKind
	// Cost is the true cost, for [AmendSettle]. It applies to the limits that still count the
	// charge; the part above the charged cost that has no room becomes a debt. If the request had a
	// Hold, the true cost is charged even if no limit counts the charge any more. For [AmendExtend]
	// of a hold, Cost is the usage so far.
	Cost int64
	// Costs maps the names of limits to their true costs. It replaces Cost. Limits without an entry
	// stay as they are; if the request had a Hold, they can be settled later. If Costs is nil, Cost
	// applies to every limit; if it is empty but not nil, no limit changes.
	Costs Costs
	// MaxDebt is the largest debt, in units, that this amendment may add to a bucket or to a limit
	// with a burst. Such limits need time to recover from a debt. Units beyond the bound are not
	// charged; see [Amended]. If MaxDebt is 0, the bound of each limit is its capacity. Other
	// limits take the whole cost, because their debts end after one window.
	MaxDebt int64
	// KnownOnly prevents [AmendExtend] from taking back a place that the store has forgotten. It is
	// for heartbeats on behalf of untrusted clients, and is valid only with AmendExtend.
	KnownOnly bool
}

// Amended is the result of an amendment.
type Amended struct {
	// Changed reports whether anything changed. After [AmendExtend], it reports whether all places
	// of the charge are held or, if it has none, whether all of its holds are open.
	Changed bool
	// Charged is the cost that remains charged after [AmendSettle]; with Costs, it is the sum over
	// all names. If the limits took different amounts, it is the smallest of them. Charged is 0 if
	// nothing changed. It is less than the true cost if MaxDebt kept a limit from taking all of it.
	Charged int64
}

// AmendmentKind determines what an amendment does. The zero value is not a kind, so an amendment
// without a kind is refused rather than taken for a refund.
type AmendmentKind uint8

const (
	// AmendSettle replaces the cost that was charged with the true cost. A true cost of zero gives
	// everything back, including places under concurrency limits, but changes nothing if the
	// request was repeated with the same ID.
	AmendSettle AmendmentKind = iota + 1
	// AmendExtend is a heartbeat: it renews a hold, and a holder's place under concurrency limits.
	// It also charges any usage that has not been charged yet. It takes back a place that the store
	// has forgotten, above the maximum if necessary. It does not take a place back after the
	// context's deadline, after a release or a settlement of the charge, or, after a
	// [CommandReset], until the lifetime of a place has passed.
	AmendExtend
	// AmendRelease gives a holder's place back. Charges under other limits stay. A heartbeat that
	// was not answered may still be under way, and could take the place back until its deadline:
	// send AmendRelease after that deadline. See [Limiter.Hold].
	AmendRelease
)

// Command is an action on one subject. The zero Command is not valid: it has no Kind.
type Command struct {
	// Kind selects what to do. It must be set.
	Kind    CommandKind
	Subject string
	// Scope and Limits select the usage that [CommandReset] clears, or that [CommandGiveBack]
	// reduces. Both commands need at least one limit.
	Scope  string
	Limits []Limit
	// For is the length of a [CommandBan]: whole microseconds from MinWindow to MaxWindow.
	For time.Duration
	// Units is the number of units that [CommandGiveBack] gives back.
	Units int64
}

// CommandKind determines what a command does. The zero value is not a kind.
type CommandKind uint8

const (
	// CommandReset clears the subject's usage of the given limits in the given scope, and its
	// bookings and request IDs there. Places are lost. Charges made before the reset can no longer
	// be amended; only the true cost of an open hold is still charged.
	CommandReset CommandKind = iota + 1
	// CommandBan denies all requests of the subject, in all scopes, for the duration For. A ban in
	// force that ends later stays as it is.
	CommandBan
	// CommandUnban ends a ban, and forgets earlier bans and the denials that count toward the next
	// one.
	CommandUnban
	// CommandGiveBack subtracts up to Units from the subject's usage of each of the given limits in
	// the given scope. It subtracts the oldest units first, and never subtracts bookings or leases,
	// because these are for later use. It is for callers that do not have the [Charge], for
	// instance because another process made it. A caller that has the Charge settles it instead.
	// Concurrency limits do not change: holders release their places instead.
	//
	// If requests share an entry (see [Resolution]; in a fixed window all do), the store cannot
	// distinguish usage from a lease that ends in the current entry. Then a command that gives back
	// more than was used also gives back units that the process with the lease may still use.
	//
	// CommandGiveBack is not idempotent. After an error it is unknown whether the units were given
	// back, and repeating the command may give back twice as many.
	CommandGiveBack
)
