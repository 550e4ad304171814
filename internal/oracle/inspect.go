package oracle

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// Inspect implements [stint.Inspector].
func (s *Store) Inspect(ctx context.Context, c stint.Claim) (stint.Inspection, error) {
	if err := ctx.Err(); err != nil {
		return stint.Inspection{}, err
	}
	if err := c.ValidateInspect(); err != nil {
		return stint.Inspection{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	shown := stint.Inspection{Now: instant(now), Ban: s.banState(c.Subject, now)}
	for _, p := range s.openAll([]*stint.Claim{&c}, now) {
		w := stint.Window{State: stint.State{Limit: p.limit, Usage: stint.Usage{
			Used:       p.opened.used(p.limit, now),
			ResetAfter: duration(p.opened.reset(p.limit, now)),
			RetryAfter: wait(p.opened.earliest(p.limit, now, 1), now),
		}}}
		entries := p.opened.show(p.limit, now)
		slices.SortStableFunc(entries, func(a, b stint.Entry) int { return cmp.Or(a.At.Compare(b.At), a.Until.Compare(b.Until)) })
		for len(entries) > 1000 {
			w.LeftOut += entries[0].Units
			entries = entries[1:]
		}
		w.Entries = entries
		shown.Windows = append(shown.Windows, w)
	}
	return shown, nil
}

// Bans implements [stint.Inspector].
func (s *Store) Bans(ctx context.Context, n int) ([]stint.Banned, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var list []stint.Banned
	for subject := range s.bans {
		if state := s.banState(subject, now); !state.Until.IsZero() {
			state.Strikes = 0
			list = append(list, stint.Banned{Subject: subject, BanState: state})
		}
	}
	slices.SortFunc(list, func(a, b stint.Banned) int {
		return cmp.Or(b.Until.Compare(a.Until), cmp.Compare(a.Subject, b.Subject))
	})
	return list[:min(len(list), max(n, 0))], nil
}

// Scopes implements [stint.Inspector].
func (s *Store) Scopes(ctx context.Context, subject string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := (stint.Claim{Subject: subject}).ValidateInspect(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var scopes []string
	for key := range s.limits {
		if key.subject == subject {
			scopes = append(scopes, key.scope)
		}
	}
	slices.Sort(scopes)
	scopes = slices.Compact(scopes)
	return scopes[:min(len(scopes), 1000)], nil
}

func (s *Store) banState(subject string, now int64) (state stint.BanState) {
	b := s.banOf(subject, now)
	if b.until > now {
		state.Until = instant(b.until)
	}
	if now-b.until < b.forgive {
		state.Level = int(b.level)
	}
	if log := s.strikes[subject]; log != nil {
		l := &stint.Limit{Max: 1, Window: s.within[subject]}
		opened := log.clone().(*eventLog)
		opened.stepBack(l, now)
		opened.open(l, now)
		state.Strikes = opened.used(l, now)
	}
	return state
}

func (g *eventLog) show(l *stint.Limit, now int64) (entries []stint.Entry) {
	for _, e := range g.entries {
		at := e.at
		if l.Algorithm == stint.Fixed {
			at -= l.Window.Microseconds()
		}
		if e.at > now-span(l) {
			entries = append(entries, stint.Entry{At: instant(at), Until: instant(e.at + span(l)), Units: e.n})
		}
	}
	for _, b := range g.booked {
		entries = append(entries, stint.Entry{At: instant(b.at), Until: instant(stamp(l, b.at) + span(l)), Units: b.n})
	}
	return entries
}

func (h *holders) show(*stint.Limit, int64) (entries []stint.Entry) {
	for _, k := range h.list {
		entries = append(entries, stint.Entry{Until: instant(k.expiry), Units: 1})
	}
	return entries
}

// show shows nothing: a bucket keeps no times of charges.
func (b *bucket) show(*stint.Limit, int64) []stint.Entry { return nil }

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }
