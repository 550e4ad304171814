package memorystore

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// ids contains the ids of charged requests for one subject and scope, in the order in which the ids
// end.
type ids struct {
	list []seenID
	text int // bytes of all ids and their charges, as textBytes counts them
}

type seenID struct {
	id      string
	hash    uint64
	until   int64 // time at which the id ends, a multiple of 16
	repeats int64
	charge  string // see contract.AppendCharge
}

// find returns the entry for id if id is in force, else nil. An id is in force until its end. But
// if its end is more than 2*life from now, the clock has stepped back, and the id is not in force.
func (d *ids) find(seed maphash.Seed, id string, now, life int64) *seenID {
	if i := d.index(seed, id); i >= 0 && d.list[i].until > now && d.list[i].until <= now+2*life {
		return &d.list[i]
	}
	return nil
}

func (d *ids) index(seed maphash.Seed, id string) int {
	if len(d.list) == 0 {
		return -1
	}
	hash := maphash.String(seed, id)
	for i := len(d.list) - 1; i >= 0; i-- {
		if d.list[i].hash == hash && d.list[i].id == id {
			return i
		}
	}
	return -1
}

// add records an id that is not in force, and drops other ids that are no longer in force.
func (d *ids) add(seed maphash.Seed, id, charge string, at, now, life int64) {
	d.forget(seed, id)
	gone := 0
	for ; gone < len(d.list) && d.list[gone].until <= now; gone++ {
		d.text -= d.list[gone].bytes()
	}
	d.list = slices.Delete(d.list, 0, gone)
	d.insert(seenID{strings.Clone(id), maphash.String(seed, id), endOf(at, life), 0, charge})
	if len(d.list) > driver.MaxIDs {
		d.dropLowest()
	}
}

// endOf returns the end of an id that was recorded at the instant `at`, rounded up to a multiple of
// 16.
func endOf(at, life int64) int64 { return (at + life + 15) / 16 * 16 }

// insert adds an id after those that end no later.
func (d *ids) insert(s seenID) {
	i := len(d.list)
	for i > 0 && d.list[i-1].until > s.until {
		i--
	}
	d.list = slices.Insert(d.list, i, s)
	d.text += s.bytes()
}

// dropLowest forgets the id with the lowest sum of end and repeats. That id is among those that end
// first, because repeats are at most [driver.MaxRepeats] and different ends are at least 16 apart.
func (d *ids) dropLowest() {
	lowest := 0
	for i := 1; i < len(d.list) && d.list[i].until == d.list[0].until; i++ {
		a, b := &d.list[i], &d.list[lowest]
		if a.repeats < b.repeats || a.repeats == b.repeats && a.id < b.id {
			lowest = i
		}
	}
	d.remove(lowest)
}

func (d *ids) forget(seed maphash.Seed, id string) {
	if i := d.index(seed, id); i >= 0 {
		d.remove(i)
	}
}

func (d *ids) remove(i int) {
	d.text -= d.list[i].bytes()
	d.list = slices.Delete(d.list, i, i+1)
}

// dead reports whether no id is in force.
func (d *ids) dead(now int64) bool {
	return len(d.list) == 0 || d.list[len(d.list)-1].until <= now
}

func (s *seenID) bytes() int { return textBytes(s.id) + textBytes(s.charge) }

// textBytes estimates how many bytes are allocated for a string: the allocator rounds sizes up.
func textBytes(text string) int { return (len(text) + len(text)/16 + 15) &^ 15 }

func (d *ids) bytes() int { return int(unsafe.Sizeof(seenID{}))*cap(d.list) + d.text }

// noteID records the request's id with its charge. It does not change an id that is still in force:
// such an id was repeated too often, because [query.repeated] answers all other repeats. But if the
// request moves a booking to an earlier instant, its id gets the new charge.
func (q *query) noteID(r *stint.Request, d *stint.Decision, at int64) {
	if r.ID == "" || !contract.Charges(&r.Claims[0]) || d.Charge.IsZero() || d.Repeat {
		return
	}
	ids, life := &q.first().record().more().ids, contract.Life(r).Microseconds()
	switch i := ids.index(q.store.seed, r.ID); {
	case r.Terms().Booked == nil && ids.find(q.store.seed, r.ID, q.now, life) == nil:
		at += r.Terms().Lease.Microseconds()
		ids.add(q.store.seed, r.ID, chargeText(r, &d.Charge), at, q.now, life)
	case r.Terms().Booked != nil && i >= 0:
		ids.text -= ids.list[i].bytes()
		ids.list[i].charge = chargeText(r, &d.Charge)
		ids.text += ids.list[i].bytes()
	}
}

// chargeText returns a charge in the form in which it is stored with a request id. See
// contract.Recall.
func chargeText(r *stint.Request, c *stint.Charge) string {
	var buf [128]byte
	note := contract.AppendNote(buf[:0], r, shapeOf(r.Claims), nil)
	return string(contract.AppendCharge(make([]byte, 0, len(note)+64), c, note))
}

func shapeOf(claims []stint.Claim) uint32 { return contract.Shape(claims, contract.NamesOf(claims)) }

// seen returns the entry for a request id if the id is in force, else nil.
func (q *query) seen(id string, life time.Duration) *seenID {
	rec := q.first().rec
	if id == "" || rec == nil || rec.rest == nil {
		return nil
	}
	return rec.rest.ids.find(q.store.seed, id, q.now, life.Microseconds())
}

// prolong extends the id of a charge, if it is in force, so that it stays in force for a full life
// from now.
func (q *query) prolong(c *driver.ChargeData) {
	if seen := q.seen(c.RequestID, c.IDLife); seen != nil {
		ids, longer := &q.first().rec.rest.ids, *seen
		longer.until = max(longer.until, endOf(q.now, c.IDLife.Microseconds()))
		ids.forget(q.store.seed, c.RequestID)
		ids.insert(longer)
	}
}

// repeated answers a request whose id is in force, and reports whether it did. It does not answer a
// request whose id was repeated too often, except in [driver.ModeForce].
func (q *query) repeated(r *stint.Request, d *stint.Decision) bool {
	seen := q.seen(r.ID, contract.Life(r))
	if seen == nil || seen.repeats >= driver.MaxRepeats && r.Mode != driver.ModeForce {
		return false
	}
	d.Repeat = true
	// Ends of ids are rounded up to multiples of 16 microseconds, so a difference of less than 16
	// microseconds is not a wait.
	if wait := seen.until - contract.Life(r).Microseconds() - q.now; wait >= 16 {
		d.RetryAfter = contract.Duration(wait)
	}
	if r.Mode == stint.ModeTake && d.RetryAfter > 0 {
		return true
	}
	d.Allowed = true
	if r.Mode != stint.ModePeek {
		seen.repeats = min(seen.repeats+1, driver.MaxRepeats)
		q.stepBans(r)
	}
	if c, ok := contract.Recall(r, shapeOf(r.Claims), seen.charge); ok {
		d.Charge = c
	}
	return true
}
