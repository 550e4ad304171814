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

// appendTo packs the sets for lua/sets.lua: those that are asked for, then the others that states
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

// Kinds of requests, see lua/take.lua.
const (
	kindPlain = iota
	kindGeneral
	kindBans
	kindPeek
	kindSeveral // parts or requests
)

func kindOf(r *stint.Request, parts []part, equal int) byte {
	if r.Mode == stint.ModePeek {
		return kindPeek
	}
	if r.Mode != stint.ModeTake || r.ID != "" || r.Terms().Fit || r.Terms().Lease > 0 ||
		len(parts) > 1 && shareState(parts) {
		return kindGeneral
	}
	for i := range parts {
		p := &parts[i]
		if p.cost == 0 || p.holders() {
			return kindGeneral
		}
		for j := range p.limits {
			if l := &p.limits[j]; l.Algorithm == stint.AlgorithmBucket && l.Max == 0 {
				return kindGeneral
			}
		}
	}
	switch {
	case r.Bans != nil:
		return kindBans
	case len(parts) > 1 || equal > 1:
		return kindSeveral
	}
	return kindPlain
}

// appendRun packs a run of equal requests for lua/take.lua.
func appendRun(b []byte, q *run, parts []part, keys int, notAfter int64, id uint64, sets *callSets) []byte {
	r, equal := &q.calls[0].Request, len(q.calls)
	kind, first := kindOf(r, parts, equal), &parts[0]
	b = append(b, kind, sets.number(first.set))
	b = appendInt(appendInt(b, first.cost), notAfter)
	if kind == kindPlain {
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
	if kind != kindSeveral {
		b = appendMore(b, r, id)
	}
	if r.ID != "" {
		note := q.note()
		b = append(le.AppendUint16(b, uint16(len(note))), note...)
	}
	le.PutUint16(b[rest-2:], uint16(len(b)-rest))
	return b
}

// appendMore packs what lua/decide.lua wants to know.
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

// withID adds a request id, if there is one, to the packed arguments.
func withID(packed []byte, id string) []string {
	if id == "" {
		return []string{rueidis.BinaryString(packed)}
	}
	return []string{rueidis.BinaryString(packed), id}
}

// amendArgs packs an amendment for lua/amend.lua, and the request id as Redis has it. Retake has a
// bit for each claim that may take places back.
func amendArgs(c *stint.Charge, a stint.Amendment, parts []part, id string, call uint64, clock, notAfter int64,
	retake uint16) []string {
	var sets callSets
	body := append(make([]byte, 0, 128), byte(a.Kind))
	body = appendInt(appendInt(body, a.Cost), a.MaxDebt)
	body = le.AppendUint64(body, c.Data().ID)
	body = appendTime(body, c.Data().IDLife)
	body = le.AppendUint16(appendInt(body, notAfter), retake)
	body = append(body, byte(len(c.Claims())))
	state := 0
	for i := range c.Claims() {
		claim := &c.Claims()[i]
		body = appendInt(appendInt(body, claim.Cost), c.Data().AtOf(i))
		count := len(body)
		body = append(body, 0)
		for j := range parts {
			p := &parts[j]
			if p.claim != i {
				continue
			}
			body[count]++
			if p.holders() {
				body = appendTime(append(body, 0), p.limits[0].Window)
				continue
			}
			body = append(body, sets.number(p.set))
			body = le.AppendUint32(body, c.Data().GenerationAt(state))
			state++
		}
	}
	b := appendStart(nil, call, clock)
	b = sets.appendTo(b)
	return withID(append(b, body...), id)
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
