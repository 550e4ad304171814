package observe

import (
	"context"
	"errors"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// reason is the outcome of a decision and its cause. Each reason is counted separately.
type reason uint8

const (
	within          reason = iota // the request is within all limits
	unlimited                     // no limit applied
	skipped                       // a policy exempts the request
	repeated                      // the ID of the request was seen before
	shadowed                      // only a rule in shadow would have denied the request
	allowedDegraded               // allowed without the store

	overLimit
	banned
	deniedDegraded // denied without the store
	unavailable    // denied because the store could not decide

	// failedFirst is the first of the reasons why a decision failed: one for each of errkind.Kinds,
	// in that order, then invalid and canceled.
	failedFirst
	invalid     = failedFirst + reason(len(errkind.Kinds))
	canceled    = invalid + 1
	reasonCount = canceled + 1
)

// These constants are the values of the label "outcome" in metrics.
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

// String returns the name of the reason, as in metrics and in the field Reason of a [Denial].
func (r reason) String() string {
	if r >= failedFirst && r < invalid {
		return errkind.Kinds[r-failedFirst].String()
	}
	return reasonNames[r]
}

func (r reason) outcome() string {
	switch {
	case r < overLimit:
		return allowedOutcome
	case r < failedFirst:
		return deniedOutcome
	}
	return failedOutcome
}

// allowance returns the reason why a request is allowed. It ignores rules in shadow. limited is
// true if a limit applied to the request.
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
