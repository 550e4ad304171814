package memorystore

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/storebounds"
)

// Scopes implements [driver.Inspector]. It looks at one shard, for all of a subject is there, and
// holds its lock for no longer than the sweeper does.
func (s *Store) Scopes(ctx context.Context, subject string) ([]string, error) {
	if err := contract.ValidateInspect((stint.Claim{Subject: subject})); err != nil {
		return nil, err
	}
	sh := &s.shards[maphash.String(s.seed, subject)>>s.shift]
	scopes := map[string]bool{} // limits with names have records of their own
	err := sh.list(ctx, "scopes", func(r *record, now int64) bool {
		if r.isOf(subject) && sh.counts(r, now) {
			scopes[r.scope()] = true
		}
		return len(scopes) < storebounds.MaxScopes
	})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(scopes)), nil
}
