package resilience

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-limiter/stint"
)

// reports tells operators that the store is lost and that it is back, never once per decision.
//
// An outage begins with the first call that fails. It ends when for a second none has failed, and a call that the
// process itself makes succeeds: so it ends without any request too, and a store that comes and goes many times a
// second is one outage. That bounds what is said: one message when an outage begins, one every newsEvery while it
// lasts, and one at its end, a second later at the earliest.
type reports struct {
	logger *slog.Logger

	nextDropped atomic.Int64 // when that may be said again

	decisions atomic.Int64 // made without the store, ever
	others    atomic.Int64 // calls that failed, ever, where no decision was made without the store
	cause     atomic.Pointer[stint.StoreError]
	watched   atomic.Bool // an outage lasts; whoever set it has what follows

	begun  time.Time // when the outage began
	before int64     // decisions made without the store before it,
	told   int64     // and before the last message
	said   time.Time // when that was
	auth   bool      // that message said that the store does not accept us
}

const (
	// newsEvery is how often the same thing is said.
	newsEvery = 10 * time.Second
	// lookEvery is how often an outage is looked at: whether it is over, and whether to say again that it is not.
	lookEvery = time.Second
)

// sayAgain reports whether something that was said may be said again.
func sayAgain(next *atomic.Int64, now int64) bool {
	at := next.Load()
	return now >= at && next.CompareAndSwap(at, now+int64(newsEvery))
}

// failures is how many calls to the store have failed, ever.
func (n *reports) failures() int64 { return n.decisions.Load() + n.others.Load() }

// failed counts a call that the store failed, in one of the counters, and says so if that is the first.
func (f *Fallback) failed(cause *stint.StoreError, counter *atomic.Int64) {
	n := &f.news
	if cause.Kind == stint.KindMigrating {
		return // the store is well, but for one slot of many
	}
	if cause.Kind != stint.KindRefused || !n.watched.Load() { // a breaker that is open does not say why it opened
		n.cause.Store(cause)
	}
	counter.Add(1)
	if !n.watched.Load() && n.watched.CompareAndSwap(false, true) {
		n.lost()
		f.run(f.watchOutage)
	}
}

// lost says that an outage has begun.
func (n *reports) lost() {
	n.begun, n.before = time.Now(), n.told
	n.say("stint: the store cannot be asked; deciding without it")
}

// say says that the store cannot be asked, and why. It is loud about a store that does not accept us: waiting does not
// fix that.
func (n *reports) say(message string) {
	cause, level := n.cause.Load(), slog.LevelWarn
	if n.auth = cause.Kind == stint.KindAuth; n.auth {
		level = slog.LevelError
		message = "stint: the store does not accept us: limits are not shared until that is fixed; " +
			"check the user, the password and the permissions (ACL) of stint"
	}
	n.said = time.Now()
	total := n.decisions.Load()
	n.logger.Log(context.Background(), level, message, "cause", cause, "kind", cause.Kind.String(),
		"decisions_without_it", total-n.told, "lasts", n.said.Sub(n.begun).Round(time.Second))
	n.told = total
}

// back says that an outage has ended.
func (n *reports) back() {
	n.told = n.decisions.Load()
	n.logger.Info("stint: the store can be asked again",
		"decisions_without_it", n.told-n.before, "lasted", time.Since(n.begun).Round(time.Second))
}

// watchOutage runs while an outage lasts.
func (f *Fallback) watchOutage() {
	n := &f.news
	for {
		seen := f.untilBack()
		if f.life.Err() != nil {
			return
		}
		n.back()
		n.watched.Store(false)
		if n.failures() == seen || !n.watched.CompareAndSwap(false, true) {
			return
		}
		n.lost() // a call has failed since, and left it to us to say so
	}
}

// untilBack waits for the end of an outage, and says every now and then that it lasts. It returns how many calls had
// failed when it ended.
func (f *Fallback) untilBack() int64 {
	n := &f.news
	for seen := n.failures(); ; {
		if sleep(f.life, lookEvery); f.life.Err() != nil {
			return seen
		}
		before := seen
		if seen = n.failures(); seen == before && f.probe() && n.failures() == seen {
			return seen
		}
		if isAuth := n.cause.Load().Kind == stint.KindAuth; isAuth && !n.auth || time.Since(n.said) >= newsEvery {
			n.say("stint: the store still cannot be asked; deciding without it")
		}
	}
}

// probeSubject is reserved for probes. Nobody is limited under it.
const probeSubject = "stint:probe"

var probeLimits = []stint.Limit{stint.Per(1000, time.Second)}

// probe asks the store as a decision does, so that the breaker closes even if no request comes. It reports whether the
// store decided. It only looks, unless the store answers and fails calls, being full for instance: such a store may well
// be able to look.
func (f *Fallback) probe() bool {
	n := &f.news
	r := stint.Request{
		Claim:   stint.Claim{Subject: probeSubject, Limits: probeLimits, Cost: 1},
		Failure: &stint.FailurePolicy{Mode: stint.FailError, Budget: patience},
	}
	switch n.cause.Load().Kind {
	case stint.KindTimeout, stint.KindUnreachable, stint.KindRefused:
		r.Mode = stint.Peek
	}
	ctx, cancel := context.WithTimeout(f.life, patience)
	defer cancel()
	_, err := f.inner.Take(ctx, r)
	if failure, ok := errors.AsType[*stint.StoreError](err); ok && failure.Kind != stint.KindRefused {
		n.cause.Store(failure)
	}
	return err == nil
}
