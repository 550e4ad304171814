package stint

import (
	"fmt"
	"strings"
	"time"
)

// FailurePolicy says what becomes of a request that the store cannot decide. Package
// resilience obeys it; a store of its own answers with the error.
type FailurePolicy struct {
	// Mode is FailLocal unless set.
	Mode FailureMode
	// Budget is how long a decision may take; zero leaves it to the store.
	Budget time.Duration
}

// FailureMode is what to do when the store fails.
type FailureMode uint8

const (
	// FailLocal decides in memory, by the same limits divided among the processes that
	// share them: nobody is refused for the store's sake, and an outage is no free pass.
	FailLocal FailureMode = iota
	// FailAllow allows everything.
	FailAllow
	// FailDeny denies everything.
	FailDeny
	// FailError returns the store's error.
	FailError
)

var failureNames = [...]string{"local", "allow", "deny", "error"}

// String returns the name that [ParseFailureMode] reads.
func (m FailureMode) String() string {
	if int(m) < len(failureNames) {
		return failureNames[m]
	}
	return fmt.Sprintf("failure mode %d", uint8(m))
}

// ParseFailureMode reads "local", "allow", "deny" or "error".
func ParseFailureMode(name string) (FailureMode, error) {
	for i, n := range failureNames {
		if n == name {
			return FailureMode(i), nil
		}
	}
	return 0, fmt.Errorf("stint: failure mode %q; want one of %s", name, strings.Join(failureNames[:], ", "))
}

// Validate reports what is wrong with the policy.
func (p *FailurePolicy) Validate() error {
	if p.Mode > FailError || p.Budget < 0 {
		return fmt.Errorf("failure: mode %d and budget %v; want FailLocal, FailAllow, FailDeny or FailError, and at least 0", p.Mode, p.Budget)
	}
	return nil
}
