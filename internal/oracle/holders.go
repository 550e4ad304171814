package oracle

import (
	"slices"

	"github.com/stint-limiter/stint"
)

// holders is the state of a concurrency limit.
type holders struct{ list []holder }

type holder struct {
	id     uint64
	expiry int64
}

// stepBack corrects expiries after the clock stepped back: it moves every expiry that is more than
// a window ahead to one window from now. It reports whether it moved any. The store writes the
// change even if it denies the request.
func (h *holders) stepBack(l *stint.Limit, now int64) bool {
	changed := false
	for i := range h.list {
		if latest := now + l.Window.Microseconds(); h.list[i].expiry > latest {
			h.list[i].expiry = latest
			changed = true
		}
	}
	return changed
}

func (h *holders) open(_ *stint.Limit, now int64) {
	h.list = slices.DeleteFunc(h.list, func(k holder) bool { return k.expiry <= now })
}

func (h *holders) used(*stint.Limit) int64 { return int64(len(h.list)) }

func (h *holders) reset(_ *stint.Limit, now int64) int64 {
	latest := now
	for _, k := range h.list {
		latest = max(latest, k.expiry)
	}
	return latest - now
}

func (h *holders) asOf(*stint.Limit, int64) (used, reset int64) {
	panic("oracle: a concurrency limit cannot be booked")
}

func (h *holders) fits(l *stint.Limit, now, cost int64) bool { return h.earliest(l, now, cost) == now }

// earliest returns the first instant at or after `from` with room for the cost: `from` itself or
// the expiry of a holder. If Max is 0, it returns [never].
func (h *holders) earliest(l *stint.Limit, from, cost int64) int64 {
	if l.Max == 0 {
		return never
	}
	room := l.Max
	if cost > 0 {
		room--
	}
	candidates := []int64{from}
	for _, k := range h.list {
		candidates = append(candidates, k.expiry)
	}
	slices.Sort(candidates)
	for _, t := range candidates {
		var left int64
		for _, k := range h.list {
			if k.expiry > t {
				left++
			}
		}
		if t >= from && left <= room {
			return t
		}
	}
	panic("oracle: holders that never expire")
}

func (h *holders) charge(l *stint.Limit, now int64, id uint64) {
	h.list = append(h.list, holder{id, now + l.Window.Microseconds()})
}

func (h *holders) bookings() []booking { return nil }

func (h *holders) settle(_ *stint.Limit, _ int64, c settlement) (charged int64, applied bool) {
	return 0, c.trueCost == 0 && h.release(c.id)
}

func (h *holders) release(id uint64) bool {
	before := len(h.list)
	h.list = slices.DeleteFunc(h.list, func(k holder) bool { return k.id == id })
	return len(h.list) < before
}

func (h *holders) extend(l *stint.Limit, now int64, id uint64) bool {
	for i := range h.list {
		if h.list[i].id == id {
			h.list[i].expiry = now + l.Window.Microseconds()
			return true
		}
	}
	return false
}

// giveBack changes nothing: holders keep their places.
func (h *holders) giveBack(*stint.Limit, int64, int64) bool { return false }
