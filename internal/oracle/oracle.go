// Package oracle is the slow, exact reference that the stores are compared with.
//
// It says what docs/rules.md says, in the same order and the plainest way: lists
// and loops, math/big where products grow, one lock, nothing ever expired but
// what the rules drop. It shares no code with the stores. Be suspicious of any
// cleverness here.
package oracle

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// Store is the reference as a [stint.Store].
type Store struct {
	now func() int64

	mu      sync.Mutex
	serial  uint64
	limits  map[limitKey]state
	ids     map[scopeKey][]seenID
	settled map[scopeKey][]settled
	bans    map[string]ban
	strikes map[string]*eventLog
	within  map[string]time.Duration // the window of the last strike
}

type scopeKey struct{ subject, scope string }

type limitKey struct {
	scopeKey
	limit string
}

// New returns an empty store that reads the time, in microseconds since the Unix
// epoch, once per decision.
func New(now func() int64) *Store {
	return &Store{
		now:     now,
		limits:  map[limitKey]state{},
		ids:     map[scopeKey][]seenID{},
		settled: map[scopeKey][]settled{},
		bans:    map[string]ban{},
		strikes: map[string]*eventLog{},
		within:  map[string]time.Duration{},
	}
}

// never is the earliest instant of what no waiting admits.
const never = int64(-1)

// most is the largest count: 2^53.
const most = stint.MaxUnits

// state is what is remembered of one limit. Its methods are the rules' words.
type state interface {
	clone() state
	// stepBack is the part of open that is written even on denial. It reports
	// whether it changed anything.
	stepBack(l *stint.Limit, now int64) bool
	// open is the rest of open.
	open(l *stint.Limit, now int64)
	used(l *stint.Limit, now int64) int64
	reset(l *stint.Limit, now int64) int64
	earliest(l *stint.Limit, from, cost int64) int64
	charge(l *stint.Limit, now, cost int64, id uint64)
	book(at, cost int64)
	bookings() []entry
	settle(l *stint.Limit, now int64, c settlement) bool
	giveBack(l *stint.Limit, now, units int64) bool
	// show is what there is to see of an opened state.
	show(l *stint.Limit, now int64) []stint.Entry
}

// settlement is one claim's part of a charge and its true cost.
type settlement struct {
	id                 uint64
	at, cost, trueCost int64
}

func fresh(l *stint.Limit) state {
	switch l.Algorithm {
	case stint.Bucket:
		return newBucket()
	case stint.Concurrency:
		return &holders{}
	default:
		return &eventLog{}
	}
}

// stored returns a copy of what is stored of a limit.
func (s *Store) stored(c *stint.Claim, l *stint.Limit) state {
	if kept := s.limits[keyOf(c, l)]; kept != nil {
		return kept.clone()
	}
	return fresh(l)
}

func keyOf(c *stint.Claim, l *stint.Limit) limitKey { return limitKey{scopeOf(c), l.ID()} }

func scopeOf(c *stint.Claim) scopeKey { return scopeKey{c.Subject, c.Scope} }

// Command implements [stint.Store].
func (s *Store) Command(ctx context.Context, c stint.Command) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	switch c.Kind {
	case stint.Reset:
		scope := scopeKey{c.Subject, c.Scope}
		for i := range c.Limits {
			delete(s.limits, limitKey{scope, c.Limits[i].ID()})
		}
		delete(s.ids, scope)
	case stint.GiveBack:
		claim := stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: slices.Clone(c.Limits)}
		for _, p := range s.openAll([]*stint.Claim{&claim}, now) {
			if p.opened.giveBack(p.limit, now, c.Units) {
				s.limits[keyOf(p.claim, p.limit)] = p.opened
			}
		}
	case stint.Ban:
		s.banByHand(c.Subject, c.For.Microseconds(), now)
	case stint.Unban:
		delete(s.bans, c.Subject)
		delete(s.strikes, c.Subject)
	}
	return nil
}

// duration turns microseconds into a duration, the largest there is if need be.
func duration(us int64) time.Duration {
	if us > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}
