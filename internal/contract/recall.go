package contract

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stint-limiter/stint"
)

// So that a repeat of a request can settle the charge, a store keeps the charge with the request
// ID, in this form:
//
//	ID (8 bytes), At, units charged to the first claim
//	note, see AppendNote
//	generations of the states that were charged in the call that recorded the ID (4 bytes each)
//
// Numbers are little-endian doubles unless a size is given. In Redis, a script writes everything
// except the note. One claim with one state and no hold takes 33 bytes.

var little = binary.LittleEndian

// headSize is the total size of ID, At and units in bytes.
const headSize = 24

// AppendNote appends the data that describes a charge and is known before the charge is made: the
// shape of the request (see [Shape]), its Hold, the costs of the claims after the first, and the
// costs by name. The argument `elsewhere` is the charge of the claims of other subjects if these
// were charged earlier, in separate calls, and nil otherwise. If it is not nil, AppendNote also
// appends its times and generations.
func AppendNote(b []byte, r *stint.Request, shape uint32, elsewhere *stint.Charge) []byte {
	b = little.AppendUint32(b, shape)
	if b = append(b, 0); elsewhere != nil {
		b[len(b)-1] = 1
	}
	if r.Hold > 0 {
		b[len(b)-1] |= 2
		b = binary.AppendUvarint(b, uint64(r.Hold.Microseconds()))
	}
	state := 0
	for i := range r.Claims {
		c := &r.Claims[i]
		if i > 0 || c.Costs != nil {
			b = binary.AppendUvarint(b, uint64(c.Cost))
		}
		for _, name := range costNames(c) {
			b = binary.AppendUvarint(b, uint64(c.Costs[name]))
		}
		own := elsewhere == nil || c.Subject == r.Claims[0].Subject
		if !own {
			b = binary.AppendUvarint(b, uint64(elsewhere.Data().AtOf(i)))
		}
		for range StateNames(c, nil) {
			if !own {
				b = little.AppendUint32(b, elsewhere.Data().GenerationAt(state))
			}
			state++
		}
	}
	return b
}

// AppendCharge appends a charge in the form in which a store keeps it with a request ID. note is
// from AppendNote.
func AppendCharge(b []byte, c *stint.Charge, note []byte) []byte {
	b = little.AppendUint64(b, c.Data().ID)
	b = little.AppendUint64(b, math.Float64bits(float64(c.Data().At)))
	b = little.AppendUint64(b, math.Float64bits(float64(c.Claims()[0].Cost)))
	b = append(b, note...)
	for i := range CountStates(c.Claims()) {
		b = little.AppendUint32(b, c.Data().GenerationAt(i))
	}
	return b
}

// Recall returns the charge of a request ID, given the text that the store keeps. It reports false
// if the text is damaged, or if the shape or the Hold of the request differs from that of the
// original request with that ID.
func Recall(r *stint.Request, shape uint32, text string) (c stint.Charge, ok bool) {
	if len(text) < headSize+5 {
		return c, false
	}
	b := []byte(text)
	c = ChargeOf(r)
	data, claims := c.Data(), c.Claims()
	data.ID = little.Uint64(b)
	data.At = int64(math.Float64frombits(little.Uint64(b[8:])))
	claims[0].Cost = int64(math.Float64frombits(little.Uint64(b[16:])))
	of, split := little.Uint32(b[headSize:]), b[headSize+4]&1 != 0
	held := b[headSize+4]&2 != 0
	b = b[headSize+5:]
	number := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			b = nil
			return -1
		}
		b = b[n:]
		return int64(v)
	}
	hold := time.Duration(0)
	if held {
		hold = time.Duration(number()) * time.Microsecond
	}
	var own []int // indexes of the states that were charged in the call that recorded the ID
	var at []int64
	state := 0
	for i := range claims {
		if i > 0 || claims[i].Costs != nil {
			claims[i].Cost = number()
		}
		if names := costNames(&claims[i]); names != nil {
			costs := make(stint.Costs, len(names))
			for _, name := range names {
				costs[name] = number()
			}
			claims[i].Costs = costs
		}
		here := !split || claims[i].Subject == claims[0].Subject
		instant := data.At
		if !here {
			instant = number()
		}
		if i > 0 && split {
			at = append(at, instant)
		}
		for range StateNames(&claims[i], nil) {
			if here {
				own = append(own, state)
			} else if len(b) >= 4 {
				SetGeneration(&c, state, little.Uint32(b))
				b = b[4:]
			}
			state++
		}
	}
	if of != shape || len(b) != 4*len(own) || data.Hold != hold {
		return stint.Charge{}, false
	}
	for k, state := range own {
		SetGeneration(&c, state, little.Uint32(b[4*k:]))
	}
	if split {
		data.Others.At = at
	}
	return c, (stint.Amendment{Kind: stint.AmendSettle}).Validate(&c) == nil
}

func costNames(c *stint.Claim) []string {
	if c.Costs == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.Costs))
}

// Shape returns a hash of everything in claims that must be equal for one request to recall the
// charge of another: the names, algorithms and windows of the limits, and the names of the costs.
// The hash also covers the argument `names`, which contains the subjects and scopes as the store
// writes them.
func Shape(claims []stint.Claim, names []byte) uint32 {
	h := uint32(2166136261) // FNV-1a
	add := func(bytes ...byte) {
		for _, b := range bytes {
			h = (h ^ uint32(b)) * 16777619
		}
	}
	add(names...)
	var window [8]byte
	for i := range claims {
		add(byte(len(claims[i].Limits)))
		for k := range claims[i].Limits {
			l := &claims[i].Limits[k]
			little.PutUint64(window[:], uint64(l.Window))
			add(byte(l.Algorithm), byte(len(l.Name)))
			add(window[:]...)
			add([]byte(l.Name)...)
		}
		for _, name := range costNames(&claims[i]) {
			add([]byte(name)...)
			add(0)
		}
	}
	return h
}

// NamesOf returns the subjects and scopes of claims, for Shape.
func NamesOf(claims []stint.Claim) (names []byte) {
	for i := range claims {
		for _, name := range [...]string{claims[i].Subject, claims[i].Scope} {
			names = append(binary.AppendUvarint(names, uint64(len(name))), name...)
		}
	}
	return slices.Clip(names)
}
