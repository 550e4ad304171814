// Package errkind classifies store failures in two ways: by kind of failure, and by [Fault], the
// problem with the Redis server that causes the failure.
package errkind

import (
	"errors"
	"slices"

	"github.com/stint-limiter/stint"
)

// Kinds lists all kinds of store failures.
var Kinds = [...]stint.StoreErrorKind{
	stint.KindOther, stint.KindTimeout, stint.KindUnreachable, stint.KindAuth, stint.KindFull, stint.KindReadOnly,
	stint.KindBusy, stint.KindReply, stint.KindMigrating, stint.KindRefused,
}

// Of returns the kind of a store failure, and KindOther for any other error.
func Of(err error) stint.StoreErrorKind {
	if failure, ok := errors.AsType[*stint.StoreError](err); ok {
		return failure.Kind
	}
	return stint.KindOther
}

// Index returns the index of a kind in [Kinds], or the index of KindOther if the kind is not
// listed.
func Index(kind stint.StoreErrorKind) int { return max(0, slices.Index(Kinds[:], kind)) }
