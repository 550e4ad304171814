package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
)

// The packed arguments and replies of the scripts; lua/start.lua, lua/take.lua,
// lua/decide.lua, lua/amend.lua and lua/command.lua state their layouts.

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

func appendInt(b []byte, v int64) []byte { return le.AppendUint64(b, math.Float64bits(float64(v))) }

func appendTime(b []byte, d time.Duration) []byte { return appendInt(b, d.Microseconds()) }

// appendStart begins the arguments of a call. The generation of states that it creates
// is made of the call's id.
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

// appendTo packs the sets for lua/sets.lua: those that are asked for, then the others that
// states may have instead. All of them are then in the list.
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

// Kinds of requests, see lua/take.lua.
const (
	kindPlain = iota
	kindGeneral
	kindBans
	kindPeek
	kindSeveral // parts or requests
)

func kindOf(r *stint.Request, parts []part, equal int) byte {
	if r.Mode == stint.Peek {
		return kindPeek
	}
	if r.Mode != stint.Take || r.ID != "" || r.Fit || r.Lease > 0 || len(parts) > 1 && shareState(parts) {
		return kindGeneral
	}
	for i := range parts {
		p := &parts[i]
		if p.cost == 0 || p.holders() {
			return kindGeneral
		}
		for j := range p.limits {
			if l := &p.limits[j]; l.Algorithm == stint.Bucket && l.Max == 0 {
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
func appendRun(b []byte, r *stint.Request, parts []part, keys, equal int, notAfter int64, id uint64, sets *callSets) []byte {
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
	le.PutUint16(b[rest-2:], uint16(len(b)-rest))
	return b
}

// appendMore packs what lua/decide.lua wants to know.
func appendMore(b []byte, r *stint.Request, id uint64) []byte {
	var bans stint.BanPolicy
	if r.ObeysBans() {
		bans = *r.Bans
	}
	b = append(b, byte(1+len(r.And)), min(byte(r.Mode), byte(stint.Force)), oneIf(r.Fit || r.Lease > 0), oneIf(r.ObeysBans()))
	b = le.AppendUint16(b, sharedClaims(r))
	b = append(b, byte(bans.After))
	wait := r.MaxWait
	if r.Mode != stint.Force {
		wait = r.Longest()
	}
	b = appendTime(b, roundUp(wait))
	b = appendInt(b, r.Booked)
	b = appendTime(b, r.Life())
	b = appendTime(b, r.Lease)
	b = appendTime(b, r.Grace())
	b = appendTime(b, bans.Within)
	b = appendTime(b, bans.Forgive)
	b = le.AppendUint64(b, id)
	b = append(b, byte(len(bans.Durations)))
	for _, d := range bans.Durations {
		b = appendTime(b, d)
	}
	return b
}

// sharedClaims is a bit for each claim that is Shared, the lowest for the first.
func sharedClaims(r *stint.Request) (bits uint16) {
	for i := range 1 + len(r.And) {
		if r.ClaimAt(i).Shared {
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

// roundUp makes a duration whole microseconds, so that a tiny longest wait does
// not become none.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// amendArgs packs an amendment for lua/amend.lua, and the request id as Redis has it. Retake has a bit for each claim that may take places back.
func amendArgs(c *stint.Charge, a stint.Amendment, parts []part, id string, call uint64, clock, notAfter int64, retake uint16) []string {
	var sets callSets
	body := append(make([]byte, 0, 128), byte(a.Kind))
	body = appendInt(appendInt(body, a.Cost), a.MaxDebt)
	body = le.AppendUint64(body, c.ID)
	body = appendTime(body, c.IDLife())
	body = le.AppendUint16(appendInt(body, notAfter), retake)
	and := c.And()
	body = append(body, byte(1+len(and)))
	state := 0
	for i := range 1 + len(and) {
		at := c.At
		if i > 0 && c.Rest.AndAt != nil {
			at = c.Rest.AndAt[i-1]
		}
		body = appendInt(appendInt(body, c.ClaimAt(i).Cost), at)
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
			body = le.AppendUint32(body, c.GenerationAt(state))
			state++
		}
	}
	b := appendStart(nil, call, clock)
	b = sets.appendTo(b)
	return withID(append(b, body...), id)
}

// commandArgs packs a command for lua/command.lua, on states, and on limits whose places are reset.
func commandArgs(c *stint.Command, states, places []part, call uint64, clock int64) []string {
	var sets callSets
	body := []byte{byte(c.Kind)}
	if c.Kind == stint.GiveBack {
		body = appendInt(body, c.Units)
	} else {
		body = appendTime(body, c.For)
	}
	body = append(body, byte(len(states)))
	for i := range states {
		body = append(body, sets.number(states[i].set))
	}
	body = append(body, byte(len(places)))
	for i := range places {
		id := places[i].limits[0].ID()
		body = append(append(appendTime(body, places[i].limits[0].Window), byte(len(id))), id...)
	}
	b := appendStart(nil, call, clock)
	b = sets.appendTo(b)
	return []string{rueidis.BinaryString(append(b, body...))}
}

// Flags of a decision in a reply.
const (
	flagAllowed = 1 << iota
	flagRepeat
	flagBanned
	flagsKnown = flagAllowed | flagRepeat | flagBanned

	flagDirectories = 32

	// Instead of a decision:
	markLate   = 16  // it would have been made after its not-after
	markCharge = 64  // what was written follows
	markFailed = 255 // a message follows
)

// opening reads how a reply of take.lua or amend.lua begins: the call that it
// answers and the server's clock.
func opening(reply string, call uint64) (in reader, now int64, err error) {
	in = reader{text: reply}
	id := in.uint64()
	now = in.int(1)
	if in.bad || id != call {
		return in, 0, errReply("it belongs to another call")
	}
	return in, now, nil
}

// errLate is that of a request that reached the server too late for its caller.
var errLate = errors.New("it came too late to be of use, and was not charged")

// decision reads the answer to a request that may be one of several equal ones, and how
// many of these it is for. An answer that could not be one to this request is an error.
func (in *reader) decision(r *stint.Request, parts []part, now int64, id uint64, equal int) (d stint.Decision, n int, err error) {
	flags := in.byte()
	switch flags {
	case markLate:
		return d, equal, errLate
	case markFailed:
		return d, equal, serverError(in.take(int(in.uint16())))
	case markCharge:
		return in.charged(r, parts, now, id, equal)
	}
	told := flags&flagDirectories != 0
	flags &^= flagDirectories
	decider := in.byte() - 1
	retry := in.int(-1)
	at := in.int(0)
	units := in.int(0)
	d.Charge = stint.ChargeOf(r)
	usages := d.Grow(limitsOf(r))
	state := 0
	for i := range parts {
		p := &parts[i]
		if p.holders() {
			usages[p.position(0)] = in.usage()
			continue
		}
		generation := in.uint32()
		if at != 0 {
			d.Charge.SetGeneration(state, generation)
		}
		state++
		for _, l := range p.set.limits {
			usages[p.position(l.index)] = in.usage()
		}
	}
	for i := range parts {
		if told && !parts[i].holders() {
			if directory := in.take(int(in.byte())); directory != "" {
				parts[i].set.learn(directory)
			}
		}
	}
	if in.bad || flags&^flagsKnown != 0 || int(decider) > len(r.And) ||
		flags&flagBanned != 0 && flags != flagBanned || flags&flagAllowed == 0 && at != 0 {
		return d, 0, errReply("a field is missing or out of range")
	}
	d.Allowed = flags&flagAllowed != 0
	d.Repeat = flags&flagRepeat != 0
	d.Banned = flags&flagBanned != 0
	d.Decider = decider
	d.RetryAfter = micros(retry)
	n = equal
	if at != 0 {
		d.Charge.ID, d.Charge.At = id, at
		if r.Fit || r.Lease > 0 {
			d.Charge.Claim.Cost = units
		} else if equal > 1 {
			if n = int(units / r.Cost); n < 1 || n > equal || units%r.Cost != 0 {
				return d, 0, errReply("a field is out of range")
			}
		}
	}
	return d, n, nil
}

// charged reads the answer to plain requests that were charged.
func (in *reader) charged(r *stint.Request, parts []part, now int64, id uint64, equal int) (d stint.Decision, n int, err error) {
	n = 1
	if equal > 1 {
		n = in.uint16()
	}
	d.Allowed = true
	d.Charge = stint.ChargeOf(r)
	d.Charge.ID, d.Charge.At = id, now
	usages := d.Grow(limitsOf(r))
	for i := range parts {
		s := in.sets.find(in.byte(), parts[i].set)
		if s == nil {
			return d, 0, errReply("a set is not of the request")
		}
		text := in.take(s.size)
		if in.bad {
			break
		}
		d.Charge.SetGeneration(i, s.usages(text, now, &parts[i], usages))
	}
	if in.bad || n < 1 || n > equal {
		return d, 0, errReply("a field is missing or out of range")
	}
	return d, n, nil
}

// find returns the set with a number, if it is for the one that is asked for; else nil.
func (c *callSets) find(number byte, asked *set) *set {
	if i := int(number) - 1; i >= 0 && i < len(c.list) && c.of[i] == asked {
		return c.list[i]
	}
	return nil
}

// limitsOf is how many limits all claims have.
func limitsOf(r *stint.Request) int {
	n := len(r.Limits)
	for i := range r.And {
		n += len(r.And[i].Limits)
	}
	return n
}

// end reports whether there is nothing left to read, and all was there.
func (in *reader) end() error {
	if in.bad || in.at != len(in.text) {
		return errReply("it is too long or too short")
	}
	return nil
}

// micros is a duration of v microseconds; −1 is Never.
func micros(v int64) time.Duration {
	if v < 0 {
		return stint.Never
	}
	if v > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(v) * time.Microsecond
}

// reader takes numbers off a reply, and notes those that are missing or out of
// range.
type reader struct {
	text string
	at   int
	bad  bool
	sets *callSets
}

func (in *reader) take(n int) string {
	if len(in.text)-in.at < n {
		in.bad, in.at = true, len(in.text)
		return ""
	}
	in.at += n
	return in.text[in.at-n : in.at]
}

func (in *reader) byte() byte {
	if b := in.take(1); b != "" {
		return b[0]
	}
	return 0
}

func (in *reader) uint16() int { return int(in.byte()) | int(in.byte())<<8 }

func (in *reader) uint32() uint32 { return uint32(in.uint16()) | uint32(in.uint16())<<16 }

func (in *reader) uint64() uint64 {
	if text := in.take(8); text != "" {
		return le.Uint64([]byte(text))
	}
	return 0
}

// int reads a whole number that is not less than the least.
func (in *reader) int(least int64) int64 {
	v := math.Float64frombits(in.uint64())
	if v >= float64(least) && v <= float64(stint.MaxUnits) && v == math.Trunc(v) {
		return int64(v)
	}
	in.bad = true
	return 0
}

func (in *reader) duration() time.Duration { return micros(in.int(-1)) }

func (in *reader) usage() stint.Usage {
	return stint.Usage{Used: in.int(0), ResetAfter: in.duration(), RetryAfter: in.duration()}
}

// decodeAmend reads the reply of amend.lua: the server's clock, and a bit for each claim to which it applied. The error is
// errLate if it came too late.
func decodeAmend(reply string, call uint64) (now int64, changed uint16, err error) {
	in, now, err := opening(reply, call)
	if err != nil {
		return 0, 0, err
	}
	late := in.byte()
	changed = uint16(in.uint16())
	if err := in.end(); err != nil {
		return 0, 0, err
	}
	if late != 0 {
		return now, 0, errLate
	}
	return now, changed, nil
}

// decodeCommand reads the reply of command.lua.
func decodeCommand(reply string, call uint64) error {
	if len(reply) != 8 || le.Uint64([]byte(reply)) != call {
		return errReply("it belongs to another call")
	}
	return nil
}
