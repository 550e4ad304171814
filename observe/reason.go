package observe

import (
	"context"
	"errors"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// reason is what came of a decision, and why. Each is counted by itself.
type reason uint8

const (
	within          reason = iota // all limits had room
	unlimited                     // there was none
	skipped                       // a policy exempts the request
	repeated                      // its ID was seen before
	shadowed                      // but for shadow it would have been denied
	allowedDegraded               // without the store

	overLimit
	banned
	deniedDegraded // over a limit, as far as is known without the store
	unavailable    // not known without the store

	failedFirst // failures, by the index of their kind
	invalid     = failedFirst + reason(len(errkind.Kinds))
	canceled    = invalid + 1
	reasonCount = canceled + 1
)

// What comes of decisions, as a label.
const (
	allowedOutcome = "allowed"
	deniedOutcome  = "denied"
	failedOutcome  = "failed"
)

var reasonNames = [...]string{
	within: "within", unlimited: "unlimited", skipped: "skipped", repeated: "repeat", shadowed: "shadow",
	allowedDegraded: "degraded",
	overLimit:       "limit", banned: "ban", deniedDegraded: "degraded", unavailable: "unavailable",
	invalid: "invalid", canceled: "canceled",
}

// String returns the reason as a label.
func (r reason) String() string {
	if r >= failedFirst && r < invalid {
		return string(errkind.Kinds[r-failedFirst])
	}
	return reasonNames[r]
}

// outcome returns what came of it as a label.
func (r reason) outcome() string {
	switch {
	case r < overLimit:
		return allowedOutcome
	case r < failedFirst:
		return deniedOutcome
	}
	return failedOutcome
}

// allowance returns why a request was allowed, other than for shadow.
func allowance(d *stint.Decision, limited bool) reason {
	switch {
	case d.Degraded:
		return allowedDegraded
	case d.Repeat:
		return repeated
	case !limited:
		return unlimited
	}
	return within
}

func denial(d *stint.Decision) reason {
	switch {
	case d.Unavailable:
		return unavailable
	case d.Degraded:
		return deniedDegraded
	case d.Banned:
		return banned
	}
	return overLimit
}

func failure(err error) reason {
	if store, ok := errors.AsType[*stint.StoreError](err); ok {
		return failedFirst + reason(errkind.Index(store.Kind))
	}
	if _, ok := errors.AsType[*stint.InvalidError](err); ok {
		return invalid
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return canceled
	}
	return failedFirst
}

// counts returns the decisions of a tally of reasons, by what came of them.
func (t *tally) counts() (c Counts) {
	for r := range reasonCount {
		n := t.sum(int(r))
		switch r.outcome() {
		case allowedOutcome:
			c.Allowed += n
		case deniedOutcome:
			c.Denied += n
		default:
			c.Failed += n
		}
		switch r {
		case allowedDegraded, deniedDegraded, unavailable:
			c.Degraded += n
		case shadowed:
			c.Shadowed += n
		}
	}
	return c
}
