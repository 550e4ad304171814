// Package errkind classifies failures of stores: by the kind of a failure, and by what is wrong
// with a Redis that fails calls.
package errkind

import (
	"errors"
	"slices"

	"github.com/stint-limiter/stint"
)

// The kinds of failures, by short names.
const (
	Other       = stint.KindOther
	Timeout     = stint.KindTimeout
	Unreachable = stint.KindUnreachable
	Auth        = stint.KindAuth
	Full        = stint.KindFull
	ReadOnly    = stint.KindReadOnly
	Busy        = stint.KindBusy
	Reply       = stint.KindReply
	Migrating   = stint.KindMigrating
	Refused     = stint.KindRefused
)

// Kinds lists all kinds.
var Kinds = [...]stint.StoreErrorKind{Other, Timeout, Unreachable, Auth, Full, ReadOnly, Busy, Reply, Migrating,
	Refused}

// Of returns the kind of a store failure, and Other for any other error.
func Of(err error) stint.StoreErrorKind {
	var failure *stint.StoreError
	if errors.As(err, &failure) && failure.Kind != "" {
		return failure.Kind
	}
	return Other
}

// Index returns the index of a kind in [Kinds], or that of Other if the kind is not listed.
func Index(kind stint.StoreErrorKind) int { return max(0, slices.Index(Kinds[:], kind)) }
