package redisstore

import (
	"errors"
	"math"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

// Flags of a decision in a reply.
const (
	flagAllowed = 1 << iota
	flagRepeat
	flagBanned
	flagsKnown = flagAllowed | flagRepeat | flagBanned

	flagRecalled    = 8
	flagDirectories = 32

	// Instead of a decision:
	markLate   = 16  // it would have been made after its not-after
	markCharge = 64  // what was written follows
	markFailed = 255 // a message follows
)

// opening reads how a reply of take.lua or amend.lua begins: the call that it answers and the
// server's clock.
func opening(reply string, call uint64) (in reader, now int64, err error) {
	in = reader{text: reply}
	id := in.uint64()
	now = in.int(1)
	if in.bad || id != call {
		return in, 0, badReply("it belongs to another call")
	}
	return in, now, nil
}

// errLate is that of a request that reached the server too late for its caller.
var errLate = errors.New("it came too late to be of use, and was not charged")

// decision reads the answer to a request that may be one of several equal ones of a run, and how
// many of these it is for. An answer that could not be one to this request is an error.
func (in *reader) decision(
	q *run, r *stint.Request, parts []part, now int64, id uint64, equal int,
) (d stint.Decision, n int, err error) {
	flags := in.byte()
	switch flags {
	case markLate:
		return d, equal, errLate
	case markFailed:
		return d, equal, serverError(in.take(int(in.uint16())))
	case markCharge:
		return in.charged(r, parts, now, id, equal)
	}
	directories, recalled := flags&flagDirectories != 0, flags&flagRecalled != 0
	flags &^= flagDirectories | flagRecalled
	decider := in.byte()
	retry := in.int(-1)
	at := in.int(0)
	units := in.int(0)
	if flags&flagBanned != 0 {
		d.BanLeft = micros(in.int(0))
	}
	d.Charge = contract.ChargeOf(r)
	d.Charge.Data().Now = now
	usages := d.MakeUsages(contract.CountLimits(r))
	state := 0
	for i := range parts {
		p := &parts[i]
		if p.holders() {
			usages[p.position(0)] = in.usage()
			continue
		}
		contract.SetGeneration(&d.Charge, state, in.uint32())
		state++
		for _, l := range p.set.limits {
			usages[p.position(l.index)] = in.usage()
		}
	}
	for i := range parts {
		if directories && !parts[i].holders() {
			if directory := in.take(int(in.byte())); directory != "" {
				parts[i].set.learn(directory)
			}
		}
	}
	if recalled {
		if first, ok := q.recall(in.take(in.uint16())); ok {
			d.Charge = first
			d.Charge.Data().Now = now
		}
	}
	if in.bad || flags&^flagsKnown != 0 || decider == 0 || int(decider) > len(r.Claims) ||
		flags&flagBanned != 0 && flags != flagBanned || flags&flagAllowed == 0 && at != 0 {
		return d, 0, badReply("a field is missing or out of range")
	}
	d.Allowed = flags&flagAllowed != 0
	d.Repeat = flags&flagRepeat != 0
	d.Banned = flags&flagBanned != 0
	if flags&(flagAllowed|flagRepeat) == 0 {
		d.Denier = decider
	}
	d.RetryAfter = micros(retry)
	n = equal
	if at != 0 {
		d.Charge.Data().ID, d.Charge.Data().At = id, at
		if r.Terms().Fit || r.Terms().Lease > 0 {
			d.Charge.Claims()[0].Cost = units
		} else if equal > 1 {
			if n = int(units / r.Claims[0].Cost); n < 1 || n > equal || units%r.Claims[0].Cost != 0 {
				return d, 0, badReply("a field is out of range")
			}
		}
	}
	return d, n, nil
}

// charged reads the answer to plain requests that were charged.
func (in *reader) charged(
	r *stint.Request, parts []part, now int64, id uint64, equal int,
) (d stint.Decision, n int, err error) {
	n = 1
	if equal > 1 {
		n = in.uint16()
	}
	d.Allowed = true
	d.Charge = contract.ChargeOf(r)
	data := d.Charge.Data()
	data.ID, data.At, data.Now = id, now, now
	usages := d.MakeUsages(contract.CountLimits(r))
	for i := range parts {
		s := in.sets.find(in.byte(), parts[i].set)
		if s == nil {
			return d, 0, badReply("a set is not of the request")
		}
		text := in.take(s.size)
		if in.bad {
			break
		}
		contract.SetGeneration(&d.Charge, i, s.usages(text, now, &parts[i], usages))
	}
	if in.bad || n < 1 || n > equal {
		return d, 0, badReply("a field is missing or out of range")
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

// end reports whether there is nothing left to read, and all was there.
func (in *reader) end() error {
	if in.bad || in.at != len(in.text) {
		return badReply("it is too long or too short")
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

// reader takes numbers off a reply, and notes those that are missing or out of range.
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

func (in *reader) usage() stint.Usage {
	return stint.Usage{Used: in.int(0), ResetAfter: micros(in.int(-1)), RetryAfter: micros(in.int(-1))}
}

// amended is to which claims of a charge an amendment applied, a bit each, the lowest for the
// first, and what a settlement left charged: the least of the limits.
type amended struct {
	claims  uint16
	charged int64
}

// with adds what was done to other claims.
func (a amended) with(b amended) amended {
	switch {
	case a.claims == 0:
		return b
	case b.claims == 0:
		return a
	}
	return amended{a.claims | b.claims, min(a.charged, b.charged)}
}

// amended reads the answer to an amendment. The error is errLate if it came too late.
func (in *reader) amended() (done amended, err error) {
	switch in.byte() {
	case markFailed:
		return done, serverError(in.take(in.uint16()))
	case 0:
	default:
		err = errLate
	}
	done.claims, done.charged = uint16(in.uint16()), in.int(0)
	return done, err
}

// decodeCommand reads the reply of command.lua.
func decodeCommand(reply string, call uint64) error {
	if len(reply) != 8 || le.Uint64([]byte(reply)) != call {
		return badReply("it belongs to another call")
	}
	return nil
}
