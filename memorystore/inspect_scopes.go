package memorystore

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// Scopes implements [driver.Inspector]. It looks at one shard, for all of a subject is there, and
// holds its lock for no longer than the sweeper does.
func (s *Store) Scopes(ctx context.Context, subject string) ([]string, error) {
	if err := s.ready(ctx, "scopes"); err != nil {
		return nil, err
	}
	if err := contract.ValidateInspect((stint.Claim{Subject: subject})); err != nil {
		return nil, err
	}
	sh := &s.shards[maphash.String(s.seed, subject)>>s.shift]
	var scopes []string
	for before := lastRecord; before > 0 && len(scopes) < driver.MaxScopes; {
		if err := s.ready(ctx, "scopes"); err != nil {
			return nil, err
		}
		scopes, before = sh.listScopes(scopes, subject, before)
	}
	slices.Sort(scopes)
	scopes = slices.Compact(scopes) // limits with names have records of their own, and one may have moved in between
	return scopes[:min(len(scopes), driver.MaxScopes)], nil
}

// listScopes adds the scopes of a subject among some records before one. It returns the first of
// them.
func (sh *shard) listScopes(scopes []string, subject string, before uint32) (_ []string, first uint32) {
	now := sh.store.read()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.follow(now)
	first, end := sh.before(before)
	for n := first; n < end; n++ {
		if r := sh.record(n); r.isOf(subject) && sh.counts(r, now) {
			scopes = append(scopes, r.scope())
		}
	}
	return scopes, first
}
