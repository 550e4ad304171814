package stint

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Inspector is a [Store] that shows what it knows, for people who want to see why somebody is limited. It changes
// nothing, and takes its time: it is not for the way of requests.
type Inspector interface {
	Store
	// Inspect shows what a subject has used of some limits in a scope, and its ban. The claim's cost does not
	// matter, nor does Shared; without limits it shows the ban alone. Of every limit the MaxEntries newest charges
	// are shown. A subject that was never seen has used nothing. A claim that does not pass
	// [Claim.ValidateInspect] is refused with its error.
	Inspect(ctx context.Context, c Claim) (Inspection, error)
	// Bans lists bans in force, the longest to last first, and no more than n of them: if there are n, others may be
	// in force. It looks at everything that is stored.
	Bans(ctx context.Context, n int) ([]Banned, error)
	// Scopes lists the scopes in which something is counted of a subject, in order, "" for what is counted without one.
	// Counts that are about to be swept away may be among them. There are no more than MaxScopes: if there are as many,
	// others may have been left out. A scope that was too long to be kept is told as a hash, which begins with "~" and is
	// no scope; one whose names are not kept as in "login#4kWXjsbSBbkYkHdLyaQgIQ", which can be inspected and reset. It looks at everything that is stored. A subject that no claim may have is refused with an [*InvalidError].
	Scopes(ctx context.Context, subject string) ([]string, error)
}

// ErrNotInspector is the cause of the error of those who are asked to show what a store knows that is no [Inspector].
var ErrNotInspector = errors.New("the store does not show what it knows; want an Inspector, as those of memorystore and redisstore are")

// MaxEntries is how many charges of one limit [Inspector.Inspect] shows.
const MaxEntries = 1000

// MaxScopes is how many scopes of one subject [Inspector.Scopes] lists.
const MaxScopes = 1000

// Inspection is what a store knows of a subject in a scope.
type Inspection struct {
	// Now is the store's clock.
	Now time.Time
	// Ban is the subject's, in all scopes.
	Ban BanState
	// Windows are those of the limits, in their order.
	Windows []Window
}

// BanState is what is known of a subject's misdeeds.
type BanState struct {
	// Until is when the ban ends; zero if there is none in force.
	Until time.Time
	// Level is how many bans denials have led to in a row, that in force included: each is longer than the last.
	// It is 0 again once they are forgiven. Bans by hand do not raise it.
	Level int
	// Strikes is how many denials count towards the next one, within what the ban policy said at the last of them.
	Strikes int64
}

// Window is a limit with what is in it.
type Window struct {
	// State is the usage that a Peek of one unit would report.
	State
	// Entries are what was charged, oldest first, and what is booked for later; nil for limits that keep no
	// times of charges, as buckets.
	Entries []Entry
	// LeftOut is how many units are in older entries than those shown.
	LeftOut int64
}

// Show sets the entries, for stores: in order of time, and the oldest left out if there are too many.
func (w *Window) Show(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(a.At.Compare(b.At), a.Until.Compare(b.Until))
	})
	for len(entries) > MaxEntries {
		w.LeftOut += entries[0].Units
		entries = entries[1:]
	}
	w.Entries = entries
}

// Entry is units that were charged at about the same time, or that are booked, or held.
type Entry struct {
	// At is when they were charged: up to one part in [Resolution] of the window later if requests share entries, the
	// start of the window if that is fixed. What is booked has the time to come that it is booked for, and a lease its
	// end. It is zero for places that are held.
	At time.Time
	// Until is when they leave the window, or when a place that is held is given up unless its holder is heard from.
	Until time.Time
	Units int64
}

// Banned is a ban in force.
type Banned struct {
	// Subject is whose it is. If that was too long to be kept it is a hash, beginning with "~"; if the store keeps no names it is as in
	// "user#4kWXjsbSBbkYkHdLyaQgIQ", which the store takes in the place of the name, but not in requests.
	Subject string
	// BanState is the ban. Its Strikes are not told in a list.
	BanState
}

// ValidateInspect reports, in an [*InvalidError], everything that is wrong with a claim that is to be inspected.
func (c Claim) ValidateInspect() error {
	c.Cost = 0
	if len(c.Limits) == 0 {
		c.Limits = []Limit{PerSecond(1)} // it need not have any
	}
	errs := c.mistakes(nil, "")
	if len(errs) == 0 {
		return nil
	}
	return &InvalidError{errors.Join(errs...)}
}

// Inspect shows what the subject of a claim has used of its limits in its scope, entry by entry, and its ban. A claim
// without limits is held to the limiter's own. The store has to be an [Inspector], else the error is
// [ErrNotInspector].
func (l *Limiter) Inspect(ctx context.Context, c Claim) (Inspection, error) {
	inspector, ok := l.store.(Inspector)
	if !ok {
		return Inspection{}, &InvalidError{ErrNotInspector}
	}
	if c.Limits == nil {
		c.Limits = l.limits
	}
	if err := c.ValidateInspect(); err != nil {
		return Inspection{}, err
	}
	return inspector.Inspect(ctx, c)
}
