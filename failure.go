package stint

import (
	"fmt"
	"time"
)

// FailurePolicy determines what happens to a request that the store cannot decide. Package
// resilience applies it; any other store returns the error.
type FailurePolicy struct {
	// Mode determines what happens to the request. The default is FailLocal.
	Mode FailureMode
	// Budget is the maximum time that a decision may take; if it is zero, the store's budget
	// applies. Use [StrictBudget] to prefer exact limits over quick answers.
	Budget time.Duration
}

// StrictBudget is a Budget that is longer than a working store needs for a decision. With this
// budget, decisions wait for a slow store instead of being made without the store.
const StrictBudget = time.Second

// FailureMode determines what happens when the store fails.
type FailureMode uint8

const (
	// FailLocal decides in memory, under the same limits, divided among the processes that share
	// them. An outage then neither denies every request nor lifts the limits.
	FailLocal FailureMode = iota
	// FailAllow allows everything.
	FailAllow
	// FailDeny denies everything.
	FailDeny
	// FailError returns the store's error.
	FailError
)

var failureNames = [...]string{"local", "allow", "deny", "error"}

// String returns the name of the mode: "local", "allow", "deny" or "error".
func (m FailureMode) String() string {
	if int(m) < len(failureNames) {
		return failureNames[m]
	}
	return fmt.Sprintf("failure mode %d", uint8(m))
}
