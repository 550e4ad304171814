package memorystore

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/storebounds"
)

// ids are the request ids of one subject and scope that were charged, in the order in which they
// end.
type ids struct {
	list []seenID
	text int // bytes of all ids, as textBytes counts them
}

type seenID struct {
	id      string
	hash    uint64
	until   int64 // a multiple of 16
	repeats int64
}

// find returns the id if it is in force, else nil.
func (d *ids) find(seed maphash.Seed, id string, now, life int64) *seenID {
	if len(d.list) == 0 {
		return nil
	}
	if i := d.index(seed, id); i >= 0 && d.list[i].until > now && d.list[i].until <= now+2*life {
		return &d.list[i]
	}
	return nil
}

func (d *ids) index(seed maphash.Seed, id string) int {
	hash := maphash.String(seed, id)
	for i := len(d.list) - 1; i >= 0; i-- {
		if d.list[i].hash == hash && d.list[i].id == id {
			return i
		}
	}
	return -1
}

// add records an id that is not in force and drops those that are not either.
func (d *ids) add(seed maphash.Seed, id string, at, now, life int64) {
	d.forget(seed, id)
	gone := 0
	for gone < len(d.list) && d.list[gone].until <= now {
		d.text -= textBytes(d.list[gone].id)
		gone++
	}
	d.list = slices.Delete(d.list, 0, gone)
	until := (at + life + 15) / 16 * 16
	i := len(d.list)
	for i > 0 && d.list[i-1].until > until {
		i--
	}
	d.list = slices.Insert(d.list, i, seenID{strings.Clone(id), maphash.String(seed, id), until, 0})
	d.text += textBytes(id)
	if len(d.list) > storebounds.MaxIDs {
		d.dropLowest()
	}
}

// dropLowest forgets the id with the lowest sum of end and repeats. Ends are far enough apart that
// it is among those that end first.
func (d *ids) dropLowest() {
	lowest := 0
	for i := 1; i < len(d.list) && d.list[i].until == d.list[0].until; i++ {
		a, b := &d.list[i], &d.list[lowest]
		if a.repeats < b.repeats || a.repeats == b.repeats && a.id < b.id {
			lowest = i
		}
	}
	d.text -= textBytes(d.list[lowest].id)
	d.list = slices.Delete(d.list, lowest, lowest+1)
}

func (d *ids) forget(seed maphash.Seed, id string) {
	if len(d.list) == 0 {
		return
	}
	if i := d.index(seed, id); i >= 0 {
		d.text -= textBytes(id)
		d.list = slices.Delete(d.list, i, i+1)
	}
}

// dead reports that no id is in force any more.
func (d *ids) dead(now int64) bool {
	return len(d.list) == 0 || d.list[len(d.list)-1].until <= now
}

// textBytes is about what an id takes: the allocator rounds up.
func textBytes(id string) int { return (len(id) + len(id)/16 + 15) &^ 15 }

func (d *ids) bytes() int { return 40*cap(d.list) + d.text }

// remember records the request's id, unless it is in force: then it has been repeated too often.
func (q *query) remember(r *stint.Request, at int64) {
	rec := q.record(&q.parts[0], &r.Claims[0])
	before := rec.rest.bytes()
	ids, life := &rec.more().ids, contract.Life(r).Microseconds()
	if ids.find(q.store.seed, r.ID, q.now, life) == nil {
		ids.add(q.store.seed, r.ID, at, q.now, life)
	}
	q.grown += int64(rec.rest.bytes() - before)
}

// seen returns a request's id if it is in force, else nil.
func (q *query) seen(id string, life time.Duration) *seenID {
	rec := q.parts[0].rec
	if id == "" || rec == nil || rec.rest == nil {
		return nil
	}
	return rec.rest.ids.find(q.store.seed, id, q.now, life.Microseconds())
}

// repeated answers a request whose id was charged before.
func (q *query) repeated(r *stint.Request, d *stint.Decision) bool {
	seen := q.seen(r.ID, contract.Life(r))
	if seen == nil || seen.repeats >= storebounds.MaxRepeats && r.Mode != driver.ModeForce {
		return false
	}
	d.Repeat = true
	// Ends of ids are rounded up to 16 microseconds.
	if wait := seen.until - contract.Life(r).Microseconds() - q.now; wait >= 16 {
		d.RetryAfter = duration(wait)
	}
	if r.Mode == stint.ModeTake && d.RetryAfter > 0 {
		return true
	}
	d.Allowed = true
	if r.Mode != stint.ModePeek {
		seen.repeats = min(seen.repeats+1, storebounds.MaxRepeats)
		q.stepBans(r)
	}
	return true
}
