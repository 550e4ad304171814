package memorystore

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/stint-limiter/stint"
)

// Scopes implements [stint.Inspector]. It looks at one shard, for all of a subject is there, and holds its lock for no
// longer than the sweeper does.
func (s *Store) Scopes(ctx context.Context, subject string) ([]string, error) {
	if err := s.ready(ctx, "scopes"); err != nil {
		return nil, err
	}
	if err := (stint.Claim{Subject: subject}).ValidateInspect(); err != nil {
		return nil, err
	}
	sh := &s.shards[maphash.String(s.seed, subject)>>s.shift]
	var scopes []string
	for from, more := uint32(0), true; more; {
		if err := s.ready(ctx, "scopes"); err != nil {
			return nil, err
		}
		scopes, from, more = sh.listScopes(scopes, subject, from)
	}
	slices.Sort(scopes)
	scopes = slices.Compact(scopes) // limits with names have records of their own, and one may have been forgotten and made again meanwhile
	return scopes[:min(len(scopes), stint.MaxScopes)], nil
}

// listScopes adds the scopes of a subject among the next records. It returns where to go on, and whether to.
func (sh *shard) listScopes(scopes []string, subject string, from uint32) (_ []string, next uint32, more bool) {
	now := sh.store.read()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = sh.follow(now)
	next = min(from+sweepPiece, sh.count)
	for n := from; n < next; n++ {
		if r := sh.record(n); r.isOf(subject) && sh.counts(r, now) {
			scopes = append(scopes, r.scope())
		}
	}
	return scopes, next, next < sh.count && len(scopes) < stint.MaxScopes
}
