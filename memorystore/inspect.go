package memorystore

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

var _ driver.Inspector = (*Store)(nil)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	if err := s.ready(ctx, "inspect"); err != nil {
		return driver.Inspection{}, err
	}
	if err := contract.ValidateInspect(c); err != nil {
		return driver.Inspection{}, err
	}
	claims := []stint.Claim{c}
	q := s.lock(claims)
	defer q.unlock()
	q.open(true)
	shown := driver.Inspection{
		Now:     contract.Instant(q.now),
		Ban:     q.ban(&q.claims[0]).state(q.now),
		Windows: make([]driver.Window, len(q.views)),
	}
	for i := range q.views {
		q.views[i].show(&shown.Windows[i], q.now)
	}
	return shown, nil
}

// show sets w to the state of the limit.
func (v *view) show(w *driver.Window, now int64) {
	w.Limit = v.limit
	w.Held = v.Held()
	w.Used, w.ResetAfter = v.Used(), contract.Duration(v.Reset())
	if !v.Fits(1) {
		_, last := v.Bookings()
		w.RetryAfter = wait(v.Earliest(max(now, last), 1), now)
	}
	var entries []driver.Entry
	if v.holds() {
		w.LeftOut = v.EachPlace(driver.MaxEntries, func(expiry int64) {
			entries = append(entries, driver.Entry{Until: contract.Instant(expiry), Units: 1})
		})
	} else {
		v.Each(func(at, until, n int64) {
			entries = append(entries, driver.Entry{At: contract.Instant(at), Until: contract.Instant(until), Units: n})
		})
	}
	contract.Show(w, entries)
}

// state describes the ban at the time now. b may be nil.
func (b *ban) state(now int64) (s driver.BanState) {
	if b == nil {
		return s
	}
	until, _ := b.stepped(now)
	if b.known && until > now {
		s.Until = contract.Instant(until)
	}
	if b.known && now-until < b.forgive {
		s.Level = b.level
	}
	s.Strikes = b.struck(now)
	return s
}

// Bans implements [driver.Inspector]. Each time it takes a lock, it holds the lock no longer than
// the sweeper does.
func (s *Store) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	list := contract.NewBanList(n)
	for i := range s.shards {
		sh := &s.shards[i]
		err := sh.list(ctx, "bans", func(r *record, now int64) bool {
			if b := banOf(r); b.end(now) > now {
				state := b.state(now)
				state.Strikes = 0
				list.Add(driver.Banned{Subject: r.subject(), BanState: state})
			}
			return sh.bans > 0
		})
		if err != nil {
			return nil, err
		}
	}
	return list.Sorted(), nil
}

// list calls f with each of the shard's records until f returns false. It releases the lock after
// every sweepPiece records. It begins with the last records, so a record that moves to a lower
// number in the meantime may be passed to f twice, but is not missed.
func (sh *shard) list(ctx context.Context, op string, f func(r *record, now int64) (more bool)) error {
	for before, more := ^uint32(0), true; more && before > 0; {
		if err := sh.store.ready(ctx, op); err != nil {
			return err
		}
		now := sh.store.read()
		sh.mu.Lock()
		now = sh.follow(now)
		end := min(before, sh.count)
		before = end - min(end, sweepPiece)
		for n := before; n < end && more; n++ {
			more = f(sh.record(n), now)
		}
		sh.mu.Unlock()
	}
	return nil
}

// Scopes implements [driver.Inspector]. It reads only one shard, because all records of a subject
// are in that shard. Each time it takes the lock, it holds the lock no longer than the sweeper
// does.
func (s *Store) Scopes(ctx context.Context, subject string) ([]string, error) {
	if err := contract.ValidateInspect((stint.Claim{Subject: subject})); err != nil {
		return nil, err
	}
	sh := &s.shards[maphash.String(s.seed, subject)>>s.shift]
	scopes := map[string]bool{} // a scope may have several records
	err := sh.list(ctx, "scopes", func(r *record, now int64) bool {
		if r.isOf(subject) && sh.counts(r, now) {
			scopes[r.scope()] = true
		}
		return len(scopes) < driver.MaxScopes
	})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(scopes)), nil
}
