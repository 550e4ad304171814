// Package errkind names the kinds of store failures: what [stint.StoreError.Kind] holds, and what
// metrics and logs show.
package errkind

import (
	"errors"
	"slices"

	"github.com/stint-limiter/stint"
)

// The kinds of failures. [stint.StoreError.Kind] documents them.
const (
	Other       = "other"
	Timeout     = "timeout"
	Unreachable = "unreachable"
	Auth        = "auth"
	Full        = "full"
	ReadOnly    = "read-only"
	Busy        = "busy"
	Reply       = "reply"
	Migrating   = "migrating"
	Refused     = "refused"
)

// Kinds lists all kinds.
var Kinds = [...]string{Other, Timeout, Unreachable, Auth, Full, ReadOnly, Busy, Reply, Migrating, Refused}

// Of returns the kind of a store failure, and Other for any other error.
func Of(err error) string {
	var failure *stint.StoreError
	if errors.As(err, &failure) && failure.Kind != "" {
		return failure.Kind
	}
	return Other
}

// Index returns the index of a kind in [Kinds], that of Other if it is not one of them.
func Index(kind string) int { return max(0, slices.Index(Kinds[:], kind)) }
