package driver

import (
	"context"
	"time"

	"github.com/stint-limiter/stint"
)

// Inspector is a [stint.Store] that shows its state, to help find out why a subject is limited. If
// a store wraps another store that lacks these methods, its methods return [errors.ErrUnsupported].
// The methods change nothing. They may be slow and do not belong on the request path.
type Inspector interface {
	stint.Store
	// Inspect shows how much of each limit the claim's subject has used in the claim's scope, and
	// the subject's ban. It ignores the claim's Cost and Shared. If the claim has no limits,
	// Inspect shows only the ban. It shows the 1,000 newest charges of every limit. A subject that
	// was never seen has used nothing. For a claim that is not valid in a request, Inspect returns
	// a [*stint.InvalidError].
	Inspect(ctx context.Context, c stint.Claim) (Inspection, error)
	// Bans lists at most n bans in force, those with the longest remaining time first. If it
	// returns n, more may be in force. It reads the whole store.
	Bans(ctx context.Context, n int) ([]Banned, error)
	// Scopes lists the scopes in which something is counted for a subject, sorted; "" stands for
	// counts without a scope. The list may include scopes whose counts are about to be removed. It
	// contains at most 1,000 scopes: if it has that many, others may have been left out. A scope
	// that was too long to be stored is shown as a hash, which begins with "~" and is not a scope.
	// A store that does not keep names shows a scope in the form "login#4kWXjsbSBbkYkHdLyaQgIQ",
	// which can be inspected and reset. Scopes reads the whole store. For a subject that is not
	// valid in a claim, it returns a [*stint.InvalidError].
	Scopes(ctx context.Context, subject string) ([]string, error)
}

// Inspection is a store's information about a subject in a scope.
type Inspection struct {
	// Now is the time by the store's clock.
	Now time.Time
	// Ban is the subject's ban, in all scopes.
	Ban BanState
	// Windows contains one window for each limit of the claim, in the same order.
	Windows []Window
}

// BanState is a subject's ban, with the number of denials that count toward the next ban.
type BanState struct {
	// Until is the time at which the ban ends; zero if no ban is in force.
	Until time.Time `json:"until,omitzero"`
	// Level is the number of bans in a row that denials have led to, including the one in force. It
	// is 0 again once the bans are forgiven. Manual bans do not raise it.
	Level int `json:"level"`
	// Strikes is the number of denials that count toward the next ban. How long each of them counts
	// is set by Within in the ban policy that applied to the last denial.
	Strikes int64 `json:"strikes"`
}

// Window is a limit with its usage and charges.
type Window struct {
	// State is the usage that a Peek of one unit would report.
	stint.State
	// Held is the number of units in Used that are held until they are settled; see
	// [stint.Request.Hold]. They are not among the Entries.
	Held int64
	// Entries lists the charges, bookings and leases, oldest first, or the places of a concurrency
	// limit. It is nil for limits that do not record individual charges, such as buckets.
	Entries []Entry
	// LeftOut is the number of units that are not in Entries because there are too many: those of
	// the oldest entries or, under a concurrency limit, of the holders that expire first.
	LeftOut int64
}

// Entry is a number of units that were charged at about the same time, or are booked or leased.
// Under a concurrency limit, it is a holder's place.
type Entry struct {
	// At is the time at which the units were charged. If requests share entries, At is up to one
	// slice of the window later; see [stint.Resolution]. If the window is fixed, At is the start of
	// the window. For a booking, At is the booked time; for a lease, it is the end of the lease. At
	// is zero for holders of a concurrency limit.
	At time.Time `json:"at,omitzero"`
	// Until is the time at which the units leave the window, or at which a holder expires if it
	// sends no heartbeat.
	Until time.Time `json:"until"`
	Units int64     `json:"units"`
}

// Banned is a ban in force.
type Banned struct {
	// Subject is the banned subject. If the name was too long to be stored, Subject is a hash that
	// begins with "~". If the store does not keep names, Subject has the form
	// "user#4kWXjsbSBbkYkHdLyaQgIQ", which the store accepts instead of the name, but not in
	// requests.
	Subject string `json:"subject"`
	// BanState is the ban. Its Strikes are not filled in.
	BanState
}
