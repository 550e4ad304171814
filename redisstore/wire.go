package redisstore

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
)

// The packed arguments and replies of the scripts; lua/decide.lua, lua/take.lua,
// lua/batch.lua, lua/amend.lua and lua/command.lua state their layouts.

var be = binary.BigEndian

func appendInt(b []byte, v int64) []byte { return be.AppendUint64(b, uint64(v)) }

func appendTime(b []byte, d time.Duration) []byte { return appendInt(b, d.Microseconds()) }

// specSize is how many bytes a packed limit has.
const specSize = 33

// appendSpecs packs limits.
func appendSpecs(b []byte, limits []stint.Limit) []byte {
	for i := range limits {
		l := &limits[i]
		b = append(b, byte(l.Algorithm))
		b = appendInt(b, l.Capacity())
		b = appendTime(b, l.Window)
		var x, y int64
		switch l.Algorithm {
		case stint.Sliding:
			x = l.BurstTimes()
		case stint.Bucket:
			x, y = l.BucketScale()
		}
		b = appendInt(b, x)
		b = appendInt(b, y)
	}
	return b
}

// specs are the limits that the requests of one call name, each once if they come from
// the same list.
type specs struct {
	packed []byte
	lists  []specList
}

// specList is a list of limits and the number of its first.
type specList struct {
	limits []stint.Limit
	first  int
}

// of returns the number of the first of a list of limits, which counts from one.
func (s *specs) of(limits []stint.Limit) int {
	for i := len(s.lists) - 1; i >= 0 && i >= len(s.lists)-4; i-- {
		if known := s.lists[i]; len(known.limits) == len(limits) && &known.limits[0] == &limits[0] {
			return known.first
		}
	}
	first := 1 + len(s.packed)/specSize
	s.packed = appendSpecs(s.packed, limits)
	s.lists = append(s.lists, specList{limits, first})
	return first
}

// appendTo packs the specs for specs.lua.
func (s *specs) appendTo(b []byte) []byte {
	b = be.AppendUint16(b, uint16(len(s.packed)/specSize))
	return append(b, s.packed...)
}

// takeArgs packs a request for take.lua.
func takeArgs(r *stint.Request, call uint64, clock, notAfter int64) []string {
	limits := len(r.Limits)
	for i := range r.And {
		limits += len(r.And[i].Limits)
	}
	b := make([]byte, 0, 18+specSize*limits+requestSize(r))
	b = be.AppendUint64(b, call)
	b = appendInt(b, clock)
	b = be.AppendUint16(b, uint16(limits))
	b = appendSpecs(b, r.Limits)
	for i := range r.And {
		b = appendSpecs(b, r.And[i].Limits)
	}
	next := 1
	b = appendRequest(b, r, notAfter, func(limits []stint.Limit) int {
		next += len(limits)
		return next - len(limits)
	})
	return withID(b, r.ID)
}

// appendRequest packs a request for decide.lua, given where among the specs of the call a
// list of limits begins.
func appendRequest(b []byte, r *stint.Request, notAfter int64, spec func([]stint.Limit) int) []byte {
	var more byte
	if r.Mode == stint.Reserve || r.ID != "" || r.Bans != nil || r.Fit || r.Lease > 0 {
		more = 1
	}
	b = appendInt(b, notAfter)
	b = append(b, byte(r.Mode), more, byte(1+len(r.And)))
	for i := range 1 + len(r.And) {
		c := r.ClaimAt(i)
		b = appendInt(b, c.Cost)
		b = append(b, byte(len(c.Limits)))
		first := spec(c.Limits)
		for j := range c.Limits {
			b = be.AppendUint16(b, uint16(first+j))
		}
	}
	if more == 0 {
		return b
	}
	b = appendTime(b, roundUp(r.Longest()))
	b = appendTime(b, r.Life())
	b = append(b, oneIf(r.Fit || r.Lease > 0))
	b = appendTime(b, r.Lease)
	var bans stint.BanPolicy
	if r.Bans != nil {
		bans = *r.Bans
	}
	b = append(b, oneIf(r.Bans != nil))
	b = be.AppendUint16(b, sharedClaims(r))
	b = append(b, byte(bans.After))
	b = appendTime(b, bans.Within)
	b = appendTime(b, bans.Forgive)
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

// requestSize is how many bytes a packed request needs, at most.
func requestSize(r *stint.Request) int {
	size := 72 + 9 + 2*len(r.Limits)
	for i := range r.And {
		size += 9 + 2*len(r.And[i].Limits)
	}
	if r.Bans != nil {
		size += 8 * len(r.Bans.Durations)
	}
	return size
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

// appendClaim packs a claim for amend.lua.
func appendClaim(b []byte, c *stint.Claim) []byte {
	b = appendInt(b, c.Cost)
	b = append(b, byte(len(c.Limits)))
	return appendSpecs(b, c.Limits)
}

// amendArgs packs an amendment for amend.lua.
func amendArgs(c *stint.Charge, a stint.Amendment, call uint64, clock int64) []string {
	b := make([]byte, 0, 128)
	b = be.AppendUint64(b, call)
	b = appendInt(b, clock)
	b = append(b, byte(a.Kind))
	b = appendInt(b, a.Cost)
	b = be.AppendUint64(b, c.ID)
	b = appendInt(b, c.At)
	b = append(b, byte(1+len(c.And())))
	b = appendClaim(b, &c.Claim)
	for i := range c.And() {
		b = appendClaim(b, &c.And()[i])
	}
	return withID(b, c.RequestID())
}

// commandArgs packs a command for command.lua.
func commandArgs(c *stint.Command, call uint64, clock int64) []string {
	b := make([]byte, 0, 32)
	b = be.AppendUint64(b, call)
	b = appendInt(b, clock)
	b = append(b, byte(c.Kind))
	if c.Kind == stint.GiveBack {
		b = appendSpecs(appendInt(b, c.Units), c.Limits)
	} else {
		b = appendTime(b, c.For)
	}
	return []string{rueidis.BinaryString(b)}
}

// Flags of a decision in a reply.
const (
	flagAllowed = 1 << iota
	flagRepeat
	flagBanned
	flagsKnown = flagAllowed | flagRepeat | flagBanned

	// Instead of a decision:
	markLate   = 16  // it would have been made after its not-after
	markFailed = 255 // a message follows
)

// opening reads how a reply of take.lua or batch.lua begins: the call that it
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

// decision reads the answer to a request, and how many units its first claim was
// charged. An answer that could not be one to this request is an error.
func (in *reader) decision(r *stint.Request, id uint64) (d stint.Decision, units int64, err error) {
	flags := in.byte()
	switch flags {
	case markLate:
		return d, 0, errLate
	case markFailed:
		return d, 0, serverError(in.take(int(in.byte())<<8 | int(in.byte())))
	}
	decider := in.byte()
	retry := in.int(-1)
	at := in.int(0)
	units = in.int(0)
	limits := len(r.Limits)
	for i := range r.And {
		limits += len(r.And[i].Limits)
	}
	if int(in.byte()) != limits {
		return d, 0, errReply("it holds another number of limits")
	}
	usages := d.Grow(limits)
	for i := range usages {
		usages[i] = stint.Usage{Used: in.int(0), ResetAfter: in.duration(), RetryAfter: in.duration()}
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
	d.Charge = stint.ChargeOf(r)
	if at != 0 {
		d.Charge.ID, d.Charge.At = id, at
		if r.Fit || r.Lease > 0 {
			d.Charge.Claim.Cost = units
		}
	}
	return d, units, nil
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
	return time.Duration(v) * time.Microsecond
}

// reader takes numbers off a reply, and notes those that are missing or out of
// range.
type reader struct {
	text string
	at   int
	bad  bool
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

func (in *reader) uint64() uint64 {
	var v uint64
	for _, c := range []byte(in.take(8)) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (in *reader) int(least int64) int64 {
	if n := int64(in.uint64()); n >= least && n <= stint.MaxUnits {
		return n
	}
	in.bad = true
	return 0
}

func (in *reader) duration() time.Duration { return micros(in.int(-1)) }

// decodeAmend reads the reply of amend.lua.
func decodeAmend(reply string, call uint64) (bool, error) {
	if len(reply) != 9 || be.Uint64([]byte(reply[:8])) != call || reply[8] > 1 {
		return false, errReply("it belongs to another call")
	}
	return reply[8] == 1, nil
}

// decodeCommand reads the reply of command.lua.
func decodeCommand(reply string, call uint64) error {
	if len(reply) != 8 || be.Uint64([]byte(reply)) != call {
		return errReply("it belongs to another call")
	}
	return nil
}
