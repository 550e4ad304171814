package redisstore

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// The packed arguments of the scripts. Each .lua file states its layout. See replies.go.

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

func appendInt(b []byte, v int64) []byte { return le.AppendUint64(b, math.Float64bits(float64(v))) }

func appendTime(b []byte, d time.Duration) []byte { return appendInt(b, d.Microseconds()) }

// appendStart begins the arguments of a call. The generation of states that it creates is made of
// the call's id.
func appendStart(b []byte, call uint64, clock int64) []byte {
	b = le.AppendUint64(b, call)
	b = appendInt(b, clock)
	return le.AppendUint32(b, uint32(call*0x9e3779b97f4a7c15>>32))
}

// callSets are the sets of one call: first those that are asked for, each once.
type callSets struct {
	list []*set
	of   []*set // which of those each is for: itself, or the one it stands in for
}

// maxCallSets is how many sets a call can number.
const maxCallSets = 255

// number returns the number of a set in the call, which counts from one; 0 of none.
func (c *callSets) number(s *set) byte {
	if s == nil {
		return 0
	}
	i := slices.Index(c.list, s)
	if i < 0 {
		i = len(c.list)
		c.list, c.of = append(c.list, s), append(c.of, s)
	}
	return byte(i + 1)
}

// appendTo packs the sets for lua/start.lua: those that are asked for, then the others that states
// may have instead. All of them are then in the list.
func (c *callSets) appendTo(b []byte) []byte {
	asked := len(c.list)
	count := len(b)
	b = append(b, 0)
	for i, s := range c.list {
		b = s.appendTo(b, 0, i+1)
	}
	for i, s := range c.list[:asked] {
		for _, o := range s.known() {
			if len(c.list) < maxCallSets {
				c.list, c.of = append(c.list, o), append(c.of, s)
				b = o.appendTo(b, i+1, len(c.list))
			}
		}
	}
	b[count] = byte(len(c.list))
	return b
}

// idStep: the ends of request ids are multiples of it, in microseconds; see lua/ids.lua.
const idStep = 16

// Kinds of runs, see lua/take.lua.
const (
	runPlain = iota
	runPlainBans
	runOther
)

// runKind says what is known of a run of equal requests with such parts.
func runKind(r *stint.Request, parts []part, equal int) byte {
	switch {
	case !takesOnly(r) || len(parts) > 1 || equal > 1:
		return runOther
	case r.Bans != nil:
		return runPlainBans
	}
	return runPlain
}

// takesOnly reports whether a request takes units now, and says nothing more but for bans.
func takesOnly(r *stint.Request) bool {
	return r.Mode == stint.ModeTake && kindOf(r) == kindPlain && !r.Terms().Fit && r.Terms().Lease == 0
}

// A kind of request is decided by a script of its own. Each of them can decide the kinds before it.
const (
	kindPlain  = iota
	kindIDs    // with a request id
	kindPlaces // with concurrency limits
)

var takeScripts = [...]*script{takeScript, idsScript, placesScript}

func kindOf(r *stint.Request) int {
	for _, l := range contract.Limits(r.Claims) {
		if isPlace(*l) {
			return kindPlaces
		}
	}
	if r.ID != "" {
		return kindIDs
	}
	return kindPlain
}

// appendRun packs a run of equal requests for lua/take.lua.
func appendRun(b []byte, q *run, parts []part, keys int, notAfter int64, id uint64, sets *callSets) []byte {
	r, equal := &q.calls[0].Request, len(q.calls)
	first, kind := &parts[0], runKind(r, parts, equal)
	b = append(b, kind, sets.number(first.set))
	b = appendInt(appendInt(b, first.cost), notAfter)
	if kind == runPlain {
		return b
	}
	b = append(b, byte(len(parts)), byte(keys), oneIf(r.ID != ""))
	b = le.AppendUint16(b, uint16(equal))
	b = le.AppendUint16(b, 0)
	rest := len(b)
	for i := range parts {
		p := &parts[i]
		if i > 0 {
			b = append(b, byte(p.claim+1), sets.number(p.set))
			b = appendInt(b, p.cost)
		}
		if p.holders() {
			b = appendTime(appendInt(b, p.limits[0].Max), p.limits[0].Window)
		}
	}
	if r.Bans != nil || !takesOnly(r) {
		b = appendMore(b, r, id)
	}
	if r.ID != "" {
		note := q.note()
		b = append(le.AppendUint16(b, uint16(len(note))), note...)
	}
	le.PutUint16(b[rest-2:], uint16(len(b)-rest))
	return b
}

// appendMore packs what a request says beyond its parts.
func appendMore(b []byte, r *stint.Request, id uint64) []byte {
	var bans stint.BanPolicy
	if contract.AppliesBans(r) {
		bans = *r.Bans
	}
	mode := min(r.Mode, driver.ModeForce)
	b = append(b, byte(len(r.Claims)), byte(mode),
		oneIf(r.Terms().Fit || r.Terms().Lease > 0), oneIf(contract.AppliesBans(r)))
	b = le.AppendUint16(b, sharedClaims(r))
	b = append(b, byte(bans.After))
	wait := r.MaxWait
	if mode != driver.ModeForce {
		wait = contract.Longest(r)
	}
	b = appendTime(b, wait+time.Microsecond-1) // rounded up: a tiny longest wait does not become none
	booked := int64(0)
	if r.Terms().Booked != nil {
		booked = r.Terms().Booked.At
	}
	b = appendInt(b, booked)
	b = appendTime(b, contract.Life(r))
	b = appendTime(b, r.Terms().Lease)
	b = appendTime(b, contract.Grace(r))
	b = appendTime(b, bans.Within)
	b = appendTime(b, bans.Forgive)
	b = le.AppendUint64(b, id)
	b = append(b, byte(len(bans.Durations)))
	for _, d := range bans.Durations {
		b = appendTime(b, d)
	}
	if mode == driver.ModeForce {
		b = appendTime(appendTime(b, r.Terms().Age), r.Terms().Refilled)
	}
	for i, n := 0, contract.CountStates(r.Claims); booked > 0 && i < n; i++ {
		b = le.AppendUint32(b, r.Terms().Booked.GenerationAt(i))
	}
	return b
}

// sharedClaims is a bit for each claim that is Shared, the lowest for the first.
func sharedClaims(r *stint.Request) (bits uint16) {
	for i := range r.Claims {
		if r.Claims[i].Shared {
			bits |= 1 << i
		}
	}
	return bits
}

func oneIf(yes bool) byte {
	if yes {
		return 1
	}
	return 0
}

// appendAmendment packs an amendment for lua/amend.lua. Retake has a bit for each claim that may
// take places back.
func appendAmendment(b []byte, c *stint.Charge, a stint.Amendment, parts []part, notAfter int64, retake uint16,
	sets *callSets) []byte {
	b = append(b, byte(a.Kind))
	b = appendInt(appendInt(b, a.Cost), a.MaxDebt)
	b = le.AppendUint64(b, c.Data().ID)
	b = appendTime(b, c.Data().IDLife)
	b = le.AppendUint16(appendInt(b, notAfter), retake)
	b = append(b, oneIf(c.Data().RequestID != ""), byte(len(c.Claims())))
	state := 0
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		b = appendInt(appendInt(b, claim.Cost), c.Data().AtOf(i))
		count := len(b)
		b = append(b, 0)
		for j := range parts {
			p := &parts[j]
			if p.claim != i {
				continue
			}
			b[count]++
			if p.holders() {
				b = appendTime(append(b, 0), p.limits[0].Window)
				continue
			}
			b = append(b, sets.number(p.set))
			b = le.AppendUint32(b, c.Data().GenerationAt(state))
			state++
		}
	}
	return b
}

// commandArgs packs a command for lua/command.lua, on states, and with resets to note.
func commandArgs(c *stint.Command, states []part, notes []note, call uint64, clock int64) []string {
	var sets callSets
	body := []byte{byte(c.Kind)}
	if c.Kind == stint.CommandGiveBack {
		body = appendInt(body, c.Units)
	} else {
		body = appendTime(body, c.For)
	}
	body = append(body, byte(len(states)))
	for i := range states {
		body = append(body, sets.number(states[i].set))
	}
	body = append(body, byte(len(notes)))
	for _, n := range notes {
		body = append(append(appendTime(body, n.life), byte(len(n.name))), n.name...)
	}
	b := appendStart(nil, call, clock)
	b = sets.appendTo(b)
	return []string{rueidis.BinaryString(append(b, body...))}
}
