package resilience

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// outageLog logs that the store is lost and that it is back, never once per decision.
//
// An outage begins with the first call that fails. It ends when no call has failed for a second and
// a call that the process itself makes succeeds: so it ends without any request too, and a store
// that comes and goes many times a second is one outage. That bounds the log: one message when an
// outage begins, one every logEvery while it lasts, and one at its end, a second later at the
// earliest.
type outageLog struct {
	logger *slog.Logger

	decisions atomic.Int64 // made without the store, ever
	others    atomic.Int64 // calls that failed, ever, where no decision was made without the store
	cause     atomic.Pointer[stint.StoreError]
	watched   atomic.Bool // an outage lasts; whoever set it owns what follows

	begun    time.Time // when the outage began
	before   int64     // decisions made without the store before it,
	logged   int64     // and before the last message
	loggedAt time.Time // when that was
	auth     bool      // that message means that the store does not accept us
}

const (
	// logEvery is how often the same thing is logged.
	logEvery = 10 * time.Second
	// checkEvery is how often to check whether an outage is over, or to be logged again.
	checkEvery = time.Second
)

// failures is how many calls to the store have failed, ever.
func (n *outageLog) failures() int64 { return n.decisions.Load() + n.others.Load() }

// failed counts a call that failed in one of the counters, and logs the first of an outage.
func (f *fallback) failed(cause *stint.StoreError, counter *atomic.Int64) {
	n := &f.outage
	if cause.Kind == errkind.Migrating {
		return // the store works, but for one slot of many
	}
	if cause.Kind != errkind.Refused || !n.watched.Load() { // the error of an open breaker does not say why it opened
		n.cause.Store(cause)
	}
	counter.Add(1)
	if !n.watched.Load() && n.watched.CompareAndSwap(false, true) {
		n.logLost()
		f.run(f.watchOutage)
	}
}

// logLost logs that an outage has begun.
func (n *outageLog) logLost() {
	n.begun, n.before = time.Now(), n.logged
	n.log("stint: the store cannot be asked; deciding without it")
}

// log logs that the store cannot be asked, and why. A store that does not accept us is an error:
// waiting does not fix that.
func (n *outageLog) log(message string) {
	cause, level := n.cause.Load(), slog.LevelWarn
	if n.auth = cause.Kind == errkind.Auth; n.auth {
		level = slog.LevelError
		message = "stint: the store does not accept us: limits are not shared until that is fixed; " +
			"check the user, the password and the permissions (ACL) of stint"
	}
	n.loggedAt = time.Now()
	total := n.decisions.Load()
	n.logger.Log(context.Background(), level, message, "cause", cause, "kind", cause.Kind,
		"decisions_without_it", total-n.logged, "lasts", n.loggedAt.Sub(n.begun).Round(time.Second))
	n.logged = total
}

// watchOutage runs while an outage lasts.
func (f *fallback) watchOutage() {
	n := &f.outage
	for {
		seen := f.untilBack()
		if f.life.Err() != nil {
			return
		}
		n.logged = n.decisions.Load()
		n.logger.Info("stint: the store can be asked again",
			"decisions_without_it", n.logged-n.before, "lasted", time.Since(n.begun).Round(time.Second))
		n.watched.Store(false)
		if n.failures() == seen || !n.watched.CompareAndSwap(false, true) {
			return
		}
		n.logLost() // a call has failed since, and left it to us to log it
	}
}

// untilBack waits for the end of an outage, and logs now and then that it lasts. It returns how
// many calls had failed when it ended.
func (f *fallback) untilBack() int64 {
	n := &f.outage
	for seen := n.failures(); ; {
		if sleep(f.life, checkEvery); f.life.Err() != nil {
			return seen
		}
		before := seen
		if seen = n.failures(); seen == before && f.probe() && n.failures() == seen {
			return seen
		}
		if isAuth := n.cause.Load().Kind == errkind.Auth; isAuth && !n.auth || time.Since(n.loggedAt) >= logEvery {
			n.log("stint: the store still cannot be asked; deciding without it")
		}
	}
}

// probeSubject is reserved for probes. No caller is limited under it.
const probeSubject = "stint:probe"

var probeLimits = []stint.Limit{stint.Per(1000, time.Second)}

// probe asks the store as a decision does, so that the breaker closes even if no request comes. It
// reports whether the store decided. It only peeks, unless the store answers and fails calls, being
// full for instance: such a store may well answer a peek.
func (f *fallback) probe() bool {
	n := &f.outage
	r := stint.Request{
		Claim:   stint.Claim{Subject: probeSubject, Limits: probeLimits, Cost: 1},
		Failure: &stint.FailurePolicy{Mode: stint.FailError, Budget: amendTime},
	}
	switch n.cause.Load().Kind {
	case errkind.Timeout, errkind.Unreachable, errkind.Refused:
		r.Mode = stint.ModePeek
	}
	ctx, cancel := context.WithTimeout(f.life, amendTime)
	defer cancel()
	_, err := take(ctx, f.inner, &r, time.Now(), denialID{})
	if cause, ok := errors.AsType[*stint.StoreError](err); ok && cause.Kind != errkind.Refused {
		n.cause.Store(cause)
	}
	return err == nil
}
