package oracle

import (
	"time"

	"github.com/stint-limiter/stint"
)

// ban is a subject's ban. The zero value means that there is no ban.
type ban struct{ until, level, at, forgive int64 }

// banOf returns the subject's ban, moved back if the clock stepped back.
func (s *Store) banOf(subject string, now int64) ban {
	b := s.bans[subject]
	if now < b.at {
		b.until -= b.at - now
		b.at = now
	}
	return b
}

// banByHand bans the subject for the given length, or until the end of an earlier ban if that is
// later. The level of an earlier ban stays, too, unless that ban is forgiven.
func (s *Store) banByHand(subject string, length, now int64) {
	b := s.banOf(subject, now)
	if now-b.until >= b.forgive {
		b = ban{}
	}
	b.until, b.at = max(b.until, now+length), now
	s.bans[subject] = b
}

// strike counts a denial. It returns the end of the resulting ban, or 0 if there is none.
func (s *Store) strike(p *stint.BanPolicy, subject string, now int64) int64 {
	st := s.strikes[subject]
	if st == nil {
		st = &state{last: now, limits: map[string]*counts{"": {}}}
		s.strikes[subject] = st
	}
	s.within[subject] = p.Within
	log := openStrikes(st, p.Within, now)
	log.append(now, 1)
	st.last = now
	if sum(log.entries) < int64(p.After) {
		return 0
	}
	delete(s.strikes, subject)

	_, known := s.bans[subject]
	b := s.banOf(subject, now)
	if !known || now-b.until >= p.Forgive.Microseconds() {
		b.level = 1
	} else {
		b.level++
	}
	length := p.Durations[min(int(b.level), len(p.Durations))-1]
	b.until, b.at, b.forgive = now+length.Microseconds(), now, p.Forgive.Microseconds()
	s.bans[subject] = b
	return b.until
}

// openStrikes opens a subject's strikes, which are a log in a separate state, and returns the log.
func openStrikes(st *state, within time.Duration, now int64) *counts {
	st.stepBack(now)
	log := st.limits[""]
	log.open(&stint.Limit{Max: 1, Window: within}, now)
	return log
}
