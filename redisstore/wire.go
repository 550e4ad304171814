package redisstore

import (
	"encoding/binary"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
)

// The packed arguments and replies of the scripts; lua/take.lua, lua/amend.lua and
// lua/command.lua state their layouts.

var be = binary.BigEndian

func appendInt(b []byte, v int64) []byte { return be.AppendUint64(b, uint64(v)) }

func appendTime(b []byte, d time.Duration) []byte { return appendInt(b, d.Microseconds()) }

// appendClaim packs a claim's spec: cost, number of limits, limits.
func appendClaim(b []byte, c *stint.Claim) []byte {
	b = appendInt(b, c.Cost)
	b = append(b, byte(len(c.Limits)))
	for i := range c.Limits {
		l := &c.Limits[i]
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

// takeArgs packs a request for take.lua.
func takeArgs(r *stint.Request, call uint64, clock int64) []string {
	size := 64 + claimsSize(&r.Claim, r.And)
	var bans stint.BanPolicy
	var bansOn, more byte
	if r.Bans != nil {
		bans, bansOn = *r.Bans, 1
		size += 8 * len(bans.Durations)
	}
	if r.Mode == stint.Reserve || r.ID != "" || r.Bans != nil {
		more = 1
	}
	b := make([]byte, 0, size)
	b = be.AppendUint64(b, call)
	b = appendInt(b, clock)
	b = append(b, byte(r.Mode), more)
	b = appendClaims(b, &r.Claim, r.And)
	if more == 1 {
		b = appendTime(b, roundUp(r.Longest()))
		b = appendTime(b, r.Life())
		b = append(b, bansOn, byte(bans.After))
		b = appendTime(b, bans.Within)
		b = appendTime(b, bans.Forgive)
		b = append(b, byte(len(bans.Durations)))
		for _, d := range bans.Durations {
			b = appendTime(b, d)
		}
	}
	return withID(b, r.ID)
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

// appendClaims packs the number of claims and their specs.
func appendClaims(b []byte, first *stint.Claim, and []stint.Claim) []byte {
	b = append(b, byte(1+len(and)))
	b = appendClaim(b, first)
	for i := range and {
		b = appendClaim(b, &and[i])
	}
	return b
}

func claimsSize(first *stint.Claim, and []stint.Claim) int {
	size := 9 + 33*len(first.Limits)
	for i := range and {
		size += 9 + 33*len(and[i].Limits)
	}
	return size
}

// amendArgs packs an amendment for amend.lua.
func amendArgs(c *stint.Charge, a stint.Amendment, call uint64, clock int64) []string {
	b := make([]byte, 0, 48+claimsSize(&c.Claim, c.And()))
	b = be.AppendUint64(b, call)
	b = appendInt(b, clock)
	b = append(b, byte(a.Kind))
	b = appendInt(b, a.Cost)
	b = be.AppendUint64(b, c.ID)
	b = appendInt(b, c.At)
	return withID(appendClaims(b, &c.Claim, c.And()), c.RequestID())
}

// commandArgs packs a command for command.lua.
func commandArgs(c *stint.Command, call uint64, clock int64) []string {
	b := make([]byte, 0, 32)
	b = be.AppendUint64(b, call)
	b = appendInt(b, clock)
	b = append(b, byte(c.Kind))
	b = appendTime(b, c.For)
	return []string{rueidis.BinaryString(b)}
}

// Flags of a decision in the reply of take.lua.
const (
	flagAllowed = 1 << iota
	flagRepeat
	flagBanned
	flagsKnown = flagAllowed | flagRepeat | flagBanned
)

// Sizes in the reply of take.lua.
const (
	takeHead  = 35
	takeState = 24
)

// decodeTake reads the reply of take.lua to a request. A reply that could not
// have come from this call is an error.
func decodeTake(reply string, call uint64, r *stint.Request) (d stint.Decision, err error) {
	if len(reply) < takeHead || be.Uint64([]byte(reply[:8])) != call {
		return d, errReply("it belongs to another call")
	}
	limits := len(r.Limits)
	for i := range r.And {
		limits += len(r.And[i].Limits)
	}
	in := reader{text: reply, at: 8}
	now := in.int(0)
	flags := in.byte()
	decider := in.byte()
	retry := in.int(-1)
	at := in.int(0)
	if int(in.byte()) != limits || len(reply) != takeHead+limits*takeState {
		return d, errReply("it holds another number of limits")
	}
	usages := d.Grow(limits)
	for i := range usages {
		usages[i] = stint.Usage{Used: in.int(0), ResetAfter: in.duration(), RetryAfter: in.duration()}
	}
	if in.bad || flags&^flagsKnown != 0 || int(decider) > len(r.And) || now == 0 ||
		flags&flagBanned != 0 && flags != flagBanned || flags&flagAllowed == 0 && at != 0 {
		return d, errReply("a field is out of range")
	}
	d.Allowed = flags&flagAllowed != 0
	d.Repeat = flags&flagRepeat != 0
	d.Banned = flags&flagBanned != 0
	d.Decider = decider
	d.RetryAfter = micros(retry)
	d.Charge = stint.ChargeOf(r)
	if at != 0 {
		d.Charge.ID, d.Charge.At = call, at
	}
	return d, nil
}

func claimAt(r *stint.Request, i int) *stint.Claim {
	if i == 0 {
		return &r.Claim
	}
	return &r.And[i-1]
}

// micros is a duration of v microseconds; −1 is Never.
func micros(v int64) time.Duration {
	if v < 0 {
		return stint.Never
	}
	return time.Duration(v) * time.Microsecond
}

// reader takes numbers off a reply whose length has been checked, and notes those
// out of range.
type reader struct {
	text string
	at   int
	bad  bool
}

func (r *reader) byte() byte {
	r.at++
	return r.text[r.at-1]
}

func (r *reader) int(least int64) int64 {
	var v uint64
	for _, c := range []byte(r.text[r.at : r.at+8]) {
		v = v<<8 | uint64(c)
	}
	r.at += 8
	if n := int64(v); n >= least && n <= stint.MaxUnits {
		return n
	}
	r.bad = true
	return 0
}

func (r *reader) duration() time.Duration { return micros(r.int(-1)) }

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
