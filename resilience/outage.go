package resilience

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/label"
)

// outageLog logs when the store is lost and when it is back. It does not log each decision.
//
// An outage begins with the first call that fails. It ends when no call has failed for a second and
// then a probe succeeds. So it ends even without requests, and if a store fails and recovers many
// times a second, that is a single outage. This bounds the log to these messages:
//
//   - one when an outage begins
//   - one every logEvery while it lasts
//   - one when the store begins to reject our credentials
//   - one about the first request that fails, if only other calls have failed before
//   - one error, if the first message was only a warning and another call or a probe fails
//   - one at its end, at least a second after it began
//
// If the outage begins with a call that was not answered in time, the first message is only a
// warning, because a single slow call may not mean an outage.
type outageLog struct {
	logger *slog.Logger

	decisions atomic.Int64 // number of requests that were decided without the store
	others    atomic.Int64 // number of other failed calls
	cause     atomic.Pointer[stint.StoreError]
	votes     errkind.Votes              // determine the main fault in this outage
	example   atomic.Pointer[failedCall] // failed call to describe in the next message; nil if there is none
	worse     chan struct{}              // signaled if the store rejects our credentials, or calls keep failing
	watched   atomic.Bool                // set during an outage

	// The goroutine that sets watched owns these fields, until watchOutage takes over:
	begun    time.Time
	before   int64 // number of decisions made without the store before the outage
	logged   int64 // number of decisions made without the store before the last message
	loggedAt time.Time
	auth     bool // whether the last message reported that the store rejects our credentials
	detailed bool // whether a message about this outage has described a request

	warned atomic.Bool // whether only a warning was logged about this outage so far
}

// failedCall holds what the log reports about a failed call. Values from a request are shortened.
type failedCall struct{ mode, key, limit string }

var errorMode = stint.FailError.String()

const (
	// logEvery is the minimum time before a message is repeated.
	logEvery = 10 * time.Second
	// checkEvery is the time between checks of whether an outage is over or should be logged again.
	checkEvery = time.Second
)

func (n *outageLog) failures() int64 { return n.decisions.Load() + n.others.Load() }

// failed counts a failed call in counter, and logs the first failure of an outage. claim is a claim
// of the call, or nil. mode is the failure mode that decides the request, or "" if the call is not
// a decision.
func (s *Stack) failed(cause *stint.StoreError, counter *atomic.Int64, claim *stint.Claim, mode string) {
	n := &s.outage
	if cause.Kind == stint.KindMigrating {
		return // only one Cluster slot of many is unavailable
	}
	worse := n.warned.Load()
	if cause.Kind != stint.KindRefused || !n.watched.Load() { // a refusal by the open breaker is not a new failure
		before := n.note(cause)
		worse = cause.Kind == stint.KindAuth && before != nil && before.Kind != stint.KindAuth
	}
	if worse {
		select {
		case n.worse <- struct{}{}:
		default:
		}
	}
	// In errorMode, the failed call may be for a rule in shadow mode, where the error affects no
	// caller. So a failure in another mode is a better example.
	if e := n.example.Load(); claim != nil && (e == nil || e.mode == errorMode && mode != errorMode) {
		n.example.Store(&failedCall{mode: mode, key: label.Short(claim.Key()), limit: label.List(claim.Limits)})
	}
	counter.Add(1)
	if !n.watched.Load() && n.watched.CompareAndSwap(false, true) {
		n.logLost()
		s.run(s.watchOutage)
	}
}

// logLost logs that an outage has begun, or that a call was not answered in time.
func (n *outageLog) logLost() {
	n.begun, n.before, n.detailed = time.Now(), n.logged, false
	if n.cause.Load().Kind == stint.KindTimeout {
		n.warned.Store(true)
		n.log(slog.LevelWarn, "stint: the store did not answer in time; the failure mode decides", n.cause.Load(), nil)
		return
	}
	n.logFault("stint: the store is unavailable: it ", false)
}

// logFault logs that the store is unavailable, what is wrong with it, and how to fix it. The
// parameter answers matters only if calls time out: it reports whether the store answers pings.
func (n *outageLog) logFault(message string, answers bool) {
	cause := n.lasting()
	fault := errkind.FaultOf(errkind.Diagnose(cause, answers))
	n.warned.Store(false)
	n.log(slog.LevelError, message+fault.Is+"; the failure mode decides", cause,
		[]any{"fault", fault.Name, "fix", fault.Fix})
}

// note records a failure, and returns the previous one. A refusal by the open breaker adds no vote,
// because it does not show what is wrong.
func (n *outageLog) note(cause *stint.StoreError) (before *stint.StoreError) {
	if cause.Kind != stint.KindRefused {
		n.votes.Add(cause, time.Now())
	}
	return n.cause.Swap(cause)
}

// lasting returns the last failure that indicates the main fault (see [errkind.Votes]), or the last
// of all failures if there are no votes.
func (n *outageLog) lasting() *stint.StoreError {
	_, last := n.votes.Fault(time.Now())
	if cause, ok := errors.AsType[*stint.StoreError](last); ok {
		return cause
	}
	return n.cause.Load()
}

// log logs why the store is unavailable, and an example of a failed request if there is a new one.
func (n *outageLog) log(level slog.Level, message string, cause *stint.StoreError, more []any) {
	n.auth = cause.Kind == stint.KindAuth
	n.loggedAt = time.Now()
	total := n.decisions.Load()
	args := append([]any{"cause", cause, "kind", cause.Kind.String()}, more...)
	if e := n.example.Swap(nil); e != nil {
		n.detailed = true
		if e.mode != "" {
			args = append(args, "mode", e.mode)
		}
		args = append(args, "key", e.key, "limit", e.limit)
	}
	n.logger.Log(context.Background(), level, message, append(args, "decisions_without_it", total-n.logged,
		"lasts", n.loggedAt.Sub(n.begun).Round(time.Second))...)
	n.logged = total
}

// watchOutage runs while an outage lasts, and logs its end.
func (s *Stack) watchOutage() {
	n := &s.outage
	for {
		seen := s.untilBack()
		if s.life.Err() != nil {
			return
		}
		n.logged = n.decisions.Load()
		n.example.Store(nil) // the next outage needs its own example
		n.votes.Clear()
		n.warned.Store(false)
		n.logger.Info("stint: the store is available again",
			"decisions_without_it", n.logged-n.before, "lasted", time.Since(n.begun).Round(time.Second))
		n.watched.Store(false)
		if n.failures() == seen || !n.watched.CompareAndSwap(false, true) {
			return
		}
		n.logLost() // a call has failed in the meantime, and left the logging to this goroutine
	}
}

// untilBack waits for the end of an outage. It logs from time to time that the outage continues. It
// logs at once if the store rejects our credentials, or if calls keep failing after only a warning
// was logged. It returns the total number of calls that had failed by then.
func (s *Stack) untilBack() int64 {
	n := &s.outage
	for seen := n.failures(); ; {
		check := time.NewTimer(checkEvery)
		select {
		case <-check.C:
			before := seen
			if seen = n.failures(); seen == before && s.probe() == nil && n.failures() == seen {
				return seen
			}
		case <-n.worse:
		case <-s.life.Done():
			return seen
		}
		isAuth := n.lasting().Kind == stint.KindAuth
		switch {
		case n.warned.Load():
			n.logFault("stint: the store is unavailable: it ", s.answers())
		case isAuth && !n.auth, time.Since(n.loggedAt) >= logEvery, !n.detailed && n.example.Load() != nil:
			n.logFault("stint: the store is still unavailable: it ", s.answers())
		}
	}
}

// answers pings a store that does not answer calls in time, and reports whether the ping succeeds.
// If the ping fails for a reason other than a timeout, that reason becomes the cause: calls may
// time out before they can fail for that reason.
func (s *Stack) answers() bool {
	if s.outage.lasting().Kind != stint.KindTimeout {
		return false
	}
	err := s.store.ping()
	failure, ok := errors.AsType[*stint.StoreError](err)
	if ok && failure.Kind != stint.KindTimeout && s.life.Err() == nil {
		s.outage.note(failure)
	}
	return err == nil
}

// probeSubject is the subject of probes. It is reserved: callers must not use it.
const probeSubject = "stint:probe"

var probeLimits = []stint.Limit{stint.Per(1000, time.Second)}

// probe asks the store for a decision, so that the breaker can close even if there are no requests.
// It normally only peeks. But if the store responds to calls with errors, for instance because it
// is full, a peek might succeed where a charge would fail, so probe charges a unit.
func (s *Stack) probe() error {
	n := &s.outage
	r := stint.Request{
		Claims:  []stint.Claim{{Subject: probeSubject, Limits: probeLimits, Cost: 1}},
		Failure: &stint.FailurePolicy{Budget: amendTime},
		Mode:    stint.ModePeek,
	}
	if cause := n.cause.Load(); n.watched.Load() && cause != nil {
		switch cause.Kind {
		case stint.KindTimeout, stint.KindUnreachable, stint.KindRefused:
		default:
			r.Mode = stint.ModeTake
		}
	}
	ctx, cancel := context.WithTimeout(s.life, amendTime)
	defer cancel()
	_, err := s.ask(ctx, &question{request: r, asked: time.Now()})
	if cause, ok := errors.AsType[*stint.StoreError](err); ok && cause.Kind != stint.KindRefused {
		n.note(cause)
	}
	return err
}

// suspect checks whether an outage has begun that no request has noticed yet, and logs it if so.
func (s *Stack) suspect() {
	if !s.outage.watched.Load() {
		s.noteFailure(s.probe(), nil)
	}
}
