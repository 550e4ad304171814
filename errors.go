package stint

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Never is the RetryAfter of a request that no passing of time will admit: its
// cost is above the capacity of a limit, or the limit is zero.
const Never = time.Duration(-1)

// DeniedError is a denial as an error, for callers that want one. See
// [Decision.Err]; stores never return it.
type DeniedError struct {
	// Key is the subject that was denied, with its scope.
	Key string
	// RetryAfter is how long to wait, or [Never].
	RetryAfter time.Duration
	// Banned says that the subject is banned.
	Banned bool
}

func (e *DeniedError) Error() string {
	if e.Banned {
		return "banned for key " + quote(e.Key)
	}
	return "rate limit exceeded for key " + quote(e.Key)
}

// InvalidError is a mistake of the caller's: nothing was done. It lists every
// mistake there is.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return "stint: invalid: " + e.Err.Error() }

// Unwrap returns the mistakes, joined.
func (e *InvalidError) Unwrap() error { return e.Err }

// StoreError is a failure of the store: nothing is known about the decision.
type StoreError struct {
	// Op is what was attempted: "take", "amend" or "command", or what a store does beside
	// them, such as "ping".
	Op string
	// Kind tells failures apart for those who count them.
	Kind ErrorKind
	Err  error
}

func (e *StoreError) Error() string { return fmt.Sprintf("stint: %s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// ErrorKind is a kind of store failure.
type ErrorKind uint8

const (
	// KindOther is any failure that has no kind of its own.
	KindOther ErrorKind = iota
	// KindTimeout is no answer in time.
	KindTimeout
	// KindUnreachable is a connection that is refused or was lost.
	KindUnreachable
	// KindAuth is a store that does not accept our name, password or permissions: not
	// an outage but a mistake, which nobody but an operator fixes.
	KindAuth
	// KindFull is a store that is out of memory.
	KindFull
	// KindReadOnly is a server that is a replica now.
	KindReadOnly
	// KindBusy is a store that answers but does not work at the moment: it loads its data,
	// runs somebody's script, has lost a part of its cluster.
	KindBusy
	// KindReply is an answer that cannot be read or belongs to another call.
	KindReply
	// KindMigrating is a slot of a Redis Cluster that is being moved: nothing was charged, and
	// this subject cannot be decided on until the move ends. It says nothing about others.
	KindMigrating
	// KindRefused is a call that was not even made: too many are waiting, or the
	// breaker is open.
	KindRefused
)

var kindNames = [...]string{"other", "timeout", "unreachable", "auth", "full", "read-only", "busy", "reply", "migrating", "refused"}

// String returns a word for the kind, for labels and logs.
func (k ErrorKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[KindOther]
}

// KindOf returns the kind of a store failure, and KindOther for any other error.
func KindOf(err error) ErrorKind {
	var failure *StoreError
	if errors.As(err, &failure) {
		return failure.Kind
	}
	return KindOther
}

// quote shows a key as the documents do, in single quotes and never with control
// characters.
func quote(s string) string {
	const most = 128
	if len(s) > most {
		s = s[:most] + "…"
	}
	q := strconv.Quote(s)
	return "'" + q[1:len(q)-1] + "'"
}
