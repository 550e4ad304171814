package histories

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// places holds the holders of a subject's places to its limit.
func (j *judge) places(s int) {
	limit := &j.subjects[s].limits[0]
	var all []*op
	for _, o := range j.ops {
		if o.kind == hold && o.told == allowed && !o.flat && o.cost(s) > 0 {
			all = append(all, o)
		}
	}
	for _, x := range all {
		if x.degraded && x.mode != stint.FailLocal {
			j.object("mode", "under %v: %v", x.mode, x)
		}
		server, own := int64(0), int64(0)
		for _, a := range all {
			// From its return until it is gone a holder surely has its place, unless it was so slow
			// to take it up that it did not last.
			if a.ret > x.ret || a.gone <= x.ret || a.ret-a.call > limit.Window/10 || a != x &&
				j.forgotten(s, a.call, x.ret) {
				continue
			}
			if a.process == x.process {
				own++
			}
			if !a.degraded {
				server++
			}
		}
		if own > limit.Max {
			j.object("places", "subject %d: process %d has %d holders under %v: %v", s, x.process, own, limit, x)
		} else if server > limit.Max && !x.degraded {
			j.object("places", "subject %d: %d holders under %v: %v", s, server, limit, x)
		}
	}
	for _, o := range j.ops {
		if o.kind == hold && o.told == denied && !o.flat && !o.banned && o.cost(s) > 0 && !j.taken(s, o) {
			j.object("room", "subject %d, %v: %v", s, limit, o)
		}
	}
}

// taken reports whether there may have been no place for an op.
func (j *judge) taken(s int, o *op) bool {
	l := &j.subjects[s].limits[0]
	shares, stale := int64(1), false
	if p := &j.processes[o.process]; o.degraded {
		shares = int64(p.instances)
		stale = shares > 1 || p.born > 0 // it goes by what the server last said of others
	}
	var stays []span
	for _, a := range j.ops {
		if a == o && !o.degraded || a.cost(s) == 0 || a.told == denied && !a.degraded {
			continue
		}
		// A place is free once that was acknowledged, else when it has expired.
		until := a.freed
		if a.told != allowed || until == never || a.degraded ||
			!j.processes[a.process].well(a.giving.from-steady, a.giving.to) {
			if until = min(a.freed, a.gone); a.told != allowed {
				until = a.ret
			}
			if until != never {
				until = j.processes[a.process].settled(until) + l.Window
			}
		}
		if stale && a.process != o.process && until != never {
			until += l.Window
		}
		stays = append(stays, span{a.call, until})
		if a.degraded && a.told == allowed {
			stays = append(stays, span{a.call, until}) // here and there
		}
	}
	at := []time.Duration{o.call, o.ret}
	for _, a := range stays {
		if o.call < a.from && a.from < o.ret {
			at = append(at, a.from)
		}
	}
	return slices.ContainsFunc(at, func(t time.Duration) bool {
		n := int64(0)
		for _, a := range stays {
			if a.from <= t && t < a.to {
				n++
			}
		}
		return n >= l.Max || shares > 1 && n >= (l.Max+shares-1)/shares
	})
}

// F41: while outages are longer than a place lasts, no more than the limit hold one at a time, and
// the places are free afterwards.
func TestOutagesLongerThanAPlace(t *testing.T) {
	sec := time.Second
	p := plan{
		instances: 1,
		subjects:  []subject{{name: "s", limits: []stint.Limit{stint.Concurrency(5, sec)}, mode: stint.FailDeny}},
		faults: []fault{{kind: stopServer, slot: -1, from: 2 * sec, to: 3600 * time.Millisecond},
			{kind: stopServer, slot: -1, from: 7 * sec, to: 8600 * time.Millisecond}},
	}
	for _, at := range []time.Duration{1 * sec, 5 * sec, 10 * sec} {
		for i := range time.Duration(6) {
			p.steps = append(p.steps, step{at: at + i, claims: []claim{{0, 1}}, kind: hold, keep: 12 * sec})
		}
	}
	h := watched(t, t.Name(), p.happen)
	for _, wrong := range verdict(h) {
		t.Errorf("%s\n%v", wrong, h)
	}
}
