package simulate

import (
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// subject counts the requests of one subject, or of everyone together.
type subject struct {
	name     string
	shared   bool
	requests int64
	peaks    []peak   // one for each limit that applied to the subject
	until    int64    // the time by which its limits will have reset, in Unix microseconds
	denials  *denials // nil if the subject has no denials, enforced or in shadow
}

// peak is a subject's highest usage of one limit.
type peak struct {
	limit    int // index in counter.limits
	used     int64
	capacity int64 // capacity of the limit at that time; a claim can change it
	at       int64 // time in Unix microseconds
}

func (s *subject) use(limit int, used, capacity, now int64) {
	i := slices.IndexFunc(s.peaks, func(p peak) bool { return p.limit == limit })
	if i < 0 {
		s.peaks = append(s.peaks, peak{limit, used, capacity, now})
	} else if used > s.peaks[i].used {
		s.peaks[i] = peak{limit, used, capacity, now}
	}
}

// denied records that the subject was denied at the time now, or would have been denied by a rule
// in shadow. It returns the subject's denials.
func (s *subject) denied(now int64) *denials {
	if s.denials == nil {
		s.denials = &denials{first: now}
	}
	s.denials.last = now
	return s.denials
}

// allowed records that a request was allowed, which ends a stretch of denials.
func (s *subject) allowed() {
	if s.denials != nil {
		s.denials.inStretch = false
	}
}

// denials counts the denials of a subject. Times are in Unix microseconds. A stretch is a sequence
// of denials with nothing allowed in between.
type denials struct {
	denied, shadowed   int64
	first, last        int64
	inStretch          bool
	since              int64 // start of the current stretch
	longest, longestAt int64 // length and start of the longest stretch
	worstWait          time.Duration
	never              bool // whether one of the requests could never be allowed
	byLimit            []limitDenials

	banned      int64 // denials by a ban already in force
	bans        int64
	bannedFor   int64
	bannedUntil int64
}

type limitDenials struct {
	limit            int // index in counter.limits
	denied, shadowed int64
}

func (d *denials) add(wait time.Duration, now int64) {
	d.denied++
	if !d.inStretch {
		d.inStretch, d.since = true, now
	}
	if length := now - d.since; length > d.longest || d.longestAt == 0 {
		d.longest, d.longestAt = length, d.since
	}
	if wait == stint.Never {
		d.never = true
	} else {
		d.worstWait = max(d.worstWait, wait)
	}
}

func (d *denials) ban(until, now int64) {
	d.bans++
	d.bannedFor += until - now
	d.bannedUntil = until
}

// by returns the element of d.byLimit for the given limit. If there is none yet, it adds one.
func (d *denials) by(limit int) *limitDenials {
	i := slices.IndexFunc(d.byLimit, func(n limitDenials) bool { return n.limit == limit })
	if i < 0 {
		i = len(d.byLimit)
		d.byLimit = append(d.byLimit, limitDenials{limit: limit})
	}
	return &d.byLimit[i]
}
