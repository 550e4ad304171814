package stint

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Never is the RetryAfter of a request that would never be admitted, however long it waited: its
// cost exceeds the capacity of a limit, or a limit is zero. Never is the longest duration, so it is
// greater than any other wait.
const Never = time.Duration(math.MaxInt64)

// DeniedError reports a denial as an error. [Decision.Err] returns it; stores never do.
type DeniedError struct {
	// Key is the subject that was denied, and its scope if it has one; see [Decision.Key].
	Key string
	// RetryAfter is the time to wait, or [Never].
	RetryAfter time.Duration
	// Banned reports whether the subject is banned.
	Banned bool
	// Unavailable reports whether the request was denied only because the store was unavailable;
	// see [Decision.Unavailable].
	Unavailable bool
}

func (e *DeniedError) Error() string {
	switch {
	case e.Unavailable:
		return "denied for key " + quote(e.Key) + ": the rate limiter is unavailable"
	case e.Banned:
		return "banned for key " + quote(e.Key)
	}
	return "rate limit exceeded for key " + quote(e.Key)
}

// InvalidError reports mistakes by the caller: a value that does not pass validation, or a call
// that the limiter or store is not set up for. Nothing was done. The error lists every mistake.
//
// In this package, in the packages that contain stores, and in packages outbound, overrides and
// observe, every error for such a mistake is an InvalidError or has one in its chain: find it with
// errors.As. The exception is overrides.Read, because the caller may not have written the text that
// it reads.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return "stint: invalid: " + e.Err.Error() }

// Unwrap returns the mistakes, joined.
func (e *InvalidError) Unwrap() error { return e.Err }

// StoreError is a failure of the store. The outcome of the operation is unknown, unless
// [StoreErrorKind.NothingDone] reports true for its Kind.
type StoreError struct {
	// Op is the operation that failed: "take", "amend" or "command", or another operation of a
	// store, such as "ping".
	Op string
	// Kind is the kind of failure, for metrics and for callers that decide what to do.
	Kind StoreErrorKind
	Err  error
}

// StoreErrorKind is a kind of failure of a store.
type StoreErrorKind string

const (
	// KindTimeout means that no answer came in time.
	KindTimeout StoreErrorKind = "timeout"
	// KindUnreachable means that the connection was refused or lost.
	KindUnreachable StoreErrorKind = "unreachable"
	// KindAuth means that the store rejects the user name or password, or does not permit the call.
	// Only an operator can fix this. Nothing was done.
	KindAuth StoreErrorKind = "auth"
	// KindFull means that the store is out of memory. Nothing was done.
	KindFull StoreErrorKind = "full"
	// KindReadOnly means that the server is now a replica. Nothing was done.
	KindReadOnly StoreErrorKind = "read-only"
	// KindBusy means that the store answers but cannot work at the moment. It is loading its data,
	// is running a long script, or has lost a part of its cluster. Nothing was done.
	KindBusy StoreErrorKind = "busy"
	// KindReply means that the answer cannot be read or belongs to another call.
	KindReply StoreErrorKind = "reply"
	// KindMigrating means that the subject's slot of a Redis Cluster is being moved. Nothing was
	// done; other subjects are not affected.
	KindMigrating StoreErrorKind = "migrating"
	// KindRefused means that the call was not made, because too many calls are waiting or the
	// breaker is open.
	KindRefused StoreErrorKind = "refused"
	// KindOther is any other failure.
	KindOther StoreErrorKind = ""
)

// String returns the text that metrics and logs show: "other" for KindOther.
func (k StoreErrorKind) String() string { return cmp.Or(string(k), "other") }

// NothingDone reports whether a call that failed in this way is certain to have done nothing, so
// that a repeat cannot charge twice. After any other failure, the store may have executed the call:
// repeat only a request with an ID (see [Request.ID]). On a Redis Cluster, a request with several
// subjects takes one call per subject, and the result applies only to the call that failed.
func (k StoreErrorKind) NothingDone() bool {
	switch k {
	case KindAuth, KindFull, KindReadOnly, KindBusy, KindMigrating, KindRefused:
		return true
	}
	return false
}

func (e *StoreError) Error() string { return fmt.Sprintf("stint: %s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// quote formats a key in single quotes. It escapes control characters and shortens a long key.
func quote(s string) string {
	const most = 128
	if len(s) > most {
		s = s[:most] + "…"
	}
	q := strconv.Quote(s)
	return "'" + q[1:len(q)-1] + "'"
}
