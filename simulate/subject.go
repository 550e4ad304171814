package simulate

import (
	"context"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
)

// table holds the subjects that are told apart.
type table struct {
	most  int
	named map[string]*subject
	block []subject // room for more; they are allocated many at a time
}

// subject is what is counted of one, or of everyone together.
type subject struct {
	name     string
	shared   bool
	requests int64
	peaks    []peak // of the limits that applied to it, those of a rule one after another
	hits     *hit   // nil if it was never denied
}

// peak is the most that a subject used of a limit at once.
type peak struct {
	limit int // its number in the tally
	used  int64
	at    int64 // microseconds
}

func newTable(most int) table { return table{most: most, named: make(map[string]*subject)} }

// of returns a subject, a new one if there is room, else nil.
func (t *table) of(name string, shared bool) *subject {
	if s := t.named[name]; s != nil {
		return s
	}
	if len(t.named) >= t.most {
		return nil
	}
	if len(t.block) == 0 {
		t.block = make([]subject, 64)
	}
	s := &t.block[0]
	t.block = t.block[1:]
	s.name, s.shared = strings.Clone(name), shared
	t.named[s.name] = s
	return s
}

// use counts what is used of the limits of a rule, of which the first has the number given.
func (s *subject) use(first int, usages []stint.Usage, now int64) {
	at := 0
	for at < len(s.peaks) && s.peaks[at].limit != first {
		at++
	}
	if at == len(s.peaks) {
		s.add(first, len(usages), now)
	}
	for i, p := range s.peaks[at : at+len(usages)] {
		if used := usages[i].Used; used > p.used {
			s.peaks[at+i].used, s.peaks[at+i].at = used, now
		}
	}
}

// add makes room for the limits of a rule. Most subjects have those of one.
func (s *subject) add(first, n int, now int64) {
	peaks := make([]peak, len(s.peaks), len(s.peaks)+n)
	copy(peaks, s.peaks)
	for i := range n {
		peaks = append(peaks, peak{limit: first + i, at: now})
	}
	s.peaks = peaks
}

// hit returns what is counted of the subject's denials, and notes that there is one more, or would be but for shadow.
func (s *subject) hit(now int64) *hit {
	if s.hits == nil {
		s.hits = &hit{first: now}
	}
	s.hits.last = now
	return s.hits
}

// allowed ends a stretch of denials.
func (s *subject) allowed() {
	if s.hits != nil {
		s.hits.denying = false
	}
}

// hit is what is counted of the denials of a subject. Times are in microseconds.
type hit struct {
	denied, shadowed   int64
	first, last        int64
	denying            bool // since, and nothing was allowed meanwhile
	since              int64
	longest, longestAt int64
	worst              time.Duration
	never              bool
	by                 []blame

	bans        int64
	bannedFor   int64
	bannedUntil int64
}

// blame is how often one limit denied.
type blame struct {
	limit            int
	denied, shadowed int64
}

func (h *hit) deny(wait time.Duration, now int64) {
	h.denied++
	if !h.denying {
		h.denying, h.since = true, now
	}
	if length := now - h.since; length > h.longest || h.longestAt == 0 {
		h.longest, h.longestAt = length, h.since
	}
	if wait == stint.Never {
		h.never = true
	} else {
		h.worst = max(h.worst, wait)
	}
}

func (h *hit) ban(until, now int64) {
	h.bans++
	h.bannedFor += until - now
	h.bannedUntil = until
}

func (h *hit) blame(limit int) *blame {
	for i := range h.by {
		if h.by[i].limit == limit {
			return &h.by[i]
		}
	}
	h.by = append(h.by, blame{limit: limit})
	return &h.by[len(h.by)-1]
}

// banEnd returns when the ban of a subject ends, in microseconds; 0 if the store does not know.
func (t *tally) banEnd(subject string) int64 {
	shown, err := t.store.Inspect(context.Background(), stint.Claim{Subject: subject})
	if err != nil || shown.Ban.Until.IsZero() {
		return 0
	}
	return shown.Ban.Until.UnixMicro()
}
