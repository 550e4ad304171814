package oracle

import (
	"context"
	"slices"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// Inspect implements [driver.Inspector].
func (s *Store) Inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	if err := ctx.Err(); err != nil {
		return driver.Inspection{}, err
	}
	if err := contract.ValidateInspect(c); err != nil {
		return driver.Inspection{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	shown := driver.Inspection{Now: contract.Instant(now), Ban: s.banState(c.Subject, now)}
	for _, p := range s.openAll([]*stint.Claim{&c}, now) {
		w := driver.Window{State: stint.State{Limit: p.limit, Usage: stint.Usage{
			Used:       p.counts.used(p.limit),
			ResetAfter: contract.Duration(p.counts.reset(p.limit, now)),
			RetryAfter: p.retryAfter(stint.ModePeek, now, 1),
		}}}
		if k, ok := p.counts.(*counts); ok {
			w.Held = sum(k.held)
		}
		contract.Show(&w, p.counts.show(p.limit))
		shown.Windows = append(shown.Windows, w)
	}
	return shown, nil
}

// Bans implements [driver.Inspector].
func (s *Store) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	list := contract.NewBanList(n)
	for subject := range s.bans {
		if state := s.banState(subject, now); !state.Until.IsZero() {
			state.Strikes = 0
			list.Add(driver.Banned{Subject: subject, BanState: state})
		}
	}
	return list.Sorted(), nil
}

// Scopes implements [driver.Inspector].
func (s *Store) Scopes(ctx context.Context, subject string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := contract.ValidateInspect((stint.Claim{Subject: subject})); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var scopes []string
	for key := range s.states {
		if key.subject == subject {
			scopes = append(scopes, key.scope)
		}
	}
	for key := range s.holders {
		if key.subject == subject {
			scopes = append(scopes, key.scope)
		}
	}
	slices.Sort(scopes)
	scopes = slices.Compact(scopes)
	return scopes[:min(len(scopes), driver.MaxScopes)], nil
}

func (s *Store) banState(subject string, now int64) (state driver.BanState) {
	b := s.banOf(subject, now)
	if b.until > now {
		state.Until = contract.Instant(b.until)
	}
	if now-b.until < b.forgive {
		state.Level = int(b.level)
	}
	if stored := s.strikes[subject]; stored != nil {
		state.Strikes = sum(openStrikes(stored.clone(), s.within[subject], now).entries)
	}
	return state
}

func (h *holders) show(*stint.Limit) (entries []driver.Entry) {
	for _, k := range h.list {
		entries = append(entries, driver.Entry{Until: contract.Instant(k.expiry), Units: 1})
	}
	return entries
}
