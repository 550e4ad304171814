// Package oracle is the slow, exact reference that tests compare the stores with.
//
// It follows the order of docs/rules.md and is as simple as possible: lists and loops, math/big
// where products grow large, one lock, and no expiry except where the rules drop something. It
// implements every rule itself, and shares only small helpers and the calendar with the stores.
// Keep it simple: avoid clever code here.
package oracle

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-limiter/stint"
)

// Store is the reference implementation of [stint.Store].
type Store struct {
	now func() int64

	mu         sync.Mutex
	serial     uint64
	generation uint32
	states     map[stateKey]*state
	holders    map[limitKey]*holders
	resets     map[limitKey]int64            // time of the last reset of a concurrency limit
	holds      map[stateKey]map[uint64]*hold // by state, then by charge id
	ids        map[scopeKey][]seenID
	settled    map[scopeKey][]settled
	own        []ownSettled
	released   map[ownReleased]bool
	bans       map[string]ban
	strikes    map[string]*state
	within     map[string]time.Duration // Within of the ban policy that counted the subject's last strike
}

type scopeKey struct{ subject, scope string }

// stateKey identifies a state, which all limits with the same name share.
type stateKey struct {
	scopeKey
	name string
}

type limitKey struct {
	scopeKey
	limit string
}

// New returns an empty store. now returns the time in microseconds since the Unix epoch; each Take,
// Amend or Command calls it once.
func New(now func() int64) *Store {
	return &Store{
		now:     now,
		states:  map[stateKey]*state{},
		holders: map[limitKey]*holders{},
		resets:  map[limitKey]int64{},

		holds: map[stateKey]map[uint64]*hold{},

		ids:     map[scopeKey][]seenID{},
		settled: map[scopeKey][]settled{},

		released: map[ownReleased]bool{},

		bans:    map[string]ban{},
		strikes: map[string]*state{},
		within:  map[string]time.Duration{},
	}
}

// never stands for an instant that never comes, such as the earliest instant of a request that will
// never be admitted.
const never = int64(-1)

// most is the maximum of every count, 2^53.
const most = stint.MaxUnits

// settlement is one claim's part of a charge, with its true cost.
type settlement struct {
	id                          uint64
	at, cost, trueCost, maxDebt int64
	known                       bool // the state has the generation of the charge
}

// drawGeneration returns a generation that no state has had.
func (s *Store) drawGeneration() uint32 {
	s.generation++
	return s.generation
}

func scopeOf(c *stint.Claim) scopeKey { return scopeKey{c.Subject, c.Scope} }

func stateOf(c *stint.Claim, l *stint.Limit) stateKey { return stateKey{scopeOf(c), l.Name} }

func keyOf(c *stint.Claim, l *stint.Limit) limitKey { return limitKey{scopeOf(c), l.ID()} }

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
	case stint.CommandReset:
		s.reset(&stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}, now)
	case stint.CommandGiveBack:
		claim := stint.Claim{Subject: c.Subject, Scope: c.Scope, Limits: slices.Clone(c.Limits)}
		for _, p := range s.openAll([]*stint.Claim{&claim}, now) {
			if p.counts.giveBack(p.limit, now, c.Units) {
				s.write(p, now)
			}
		}
	case stint.CommandBan:
		s.banByHand(c.Subject, c.For.Microseconds(), now)
	case stint.CommandUnban:
		delete(s.bans, c.Subject)
		delete(s.strikes, c.Subject)
	}
	return nil
}

// reset removes the usage under the limits of c, the states without any limits left, and the
// request ids of the scope.
func (s *Store) reset(c *stint.Claim, now int64) {
	for i := range c.Limits {
		l := &c.Limits[i]
		if l.Algorithm == stint.AlgorithmConcurrency {
			delete(s.holders, keyOf(c, l))
			s.resets[keyOf(c, l)] = now
		}
		if st := s.states[stateOf(c, l)]; st != nil && l.Algorithm != stint.AlgorithmConcurrency {
			delete(st.limits, l.ID())
			st.stepBack(now)
			st.generation, st.last = s.drawGeneration(), now
			if len(st.limits) == 0 {
				delete(s.states, stateOf(c, l))
			}
		}
	}
	delete(s.ids, scopeOf(c))
}
