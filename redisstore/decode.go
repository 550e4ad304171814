package redisstore

import (
	"errors"
	"math"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

// This file reads the replies of the scripts. The files in lua document the layouts.

var errLate = errors.New("the request reached Redis too late, and was not charged")

// open begins to read the reply to a call. It checks the call's id and reads the server's time.
func (c *scriptCall) open(reply string) (in reader, err error) {
	in = reader{call: c, text: reply}
	id := in.uint64()
	in.now = in.int(1)
	if in.bad || id != c.id {
		return in, badReply("it belongs to another call")
	}
	return in, nil
}

// Flags of a decision in a reply.
const (
	flagAllowed = 1 << iota
	flagRepeat
	flagBanned
	flagsKnown = flagAllowed | flagRepeat | flagBanned

	flagRecalled    = 8
	flagDirectories = 32

	// Instead of a decision:
	markLate   = 16  // not decided, because the not-after had passed
	markCharge = 64  // followed by the bytes that were written
	markFailed = 255 // followed by a message
)

// answer fills in the decisions of a reply, or the error. It returns the undecided runs that must
// be sent again because the server's clock had been set: the server refused them as too late
// although they have time left, or because the call had the wrong calendar periods.
func (c *scriptCall) answer(reply string, err error) (late []run) {
	if err == nil {
		late, err = c.decodeTake(reply)
	}
	if err != nil {
		failRuns(c.runs, err)
	}
	if c.store.learnPeriods(err) {
		return c.runs
	}
	return late
}

func failRuns(runs []run, err error) {
	for i := range runs {
		fail(runs[i].calls, err)
	}
}

func fail(calls []*driver.Call, err error) {
	for _, c := range calls {
		c.Decision, c.Err = stint.Decision{}, err
	}
}

// decodeTake does the work of answer if there is a reply. If it cannot read a part of the reply, it
// returns an error for the whole reply, because it does not know where the next part begins.
func (c *scriptCall) decodeTake(reply string) (late []run, err error) {
	in, err := c.open(reply)
	if err != nil {
		return nil, err
	}
	id, rest, tooLate := c.id+1, c.parts, false
	for i := range c.runs {
		q, calls, parts := &c.runs[i], c.runs[i].calls, rest[:c.runs[i].parts]
		rest = rest[len(parts):]
		for len(calls) > 0 {
			d, n, err := in.decision(q, calls, parts, id)
			switch {
			case errors.Is(err, errReply):
				return nil, err
			case err != nil:
				n = len(calls)
				fail(calls, err)
			default:
				share(&d, calls[:n], id)
			}
			if err == errLate {
				tooLate = true
				if time.Until(q.deadline) > 0 {
					left := *q
					left.calls = calls
					late = append(late, left)
				}
			}
			calls, id = calls[n:], id+uint64(n)
		}
	}
	if err := in.end(); err != nil {
		return nil, err
	}
	c.store.clock.learn(in.now, tooLate)
	return late, nil
}

// share copies a decision to the calls that it answers. The ids of their charges begin with id.
func share(d *stint.Decision, calls []*driver.Call, id uint64) {
	if len(calls) == 1 {
		calls[0].Decision, calls[0].Err = *d, nil
		return
	}
	usages := d.Usages()
	for i, c := range calls {
		c.Decision, c.Err = *d, nil
		c.Decision.Charge.SetClaims(c.Request.Claims)
		own := c.Decision.MakeUsages(len(usages))
		copy(own, usages)
		if d.Allowed {
			c.Decision.Charge.Data().ID = id + uint64(i)
			for j := range own { // compute the usage after this call
				own[j].Used -= int64(len(calls)-1-i) * c.Request.Claims[0].Cost
			}
		}
	}
}

// decision reads the next answer to a run. calls are the unanswered calls of the run, and n is how
// many of them the answer is for. If the answer does not match their request, decision returns an
// error.
func (in *reader) decision(
	q *run, calls []*driver.Call, parts []part, id uint64,
) (d stint.Decision, n int, err error) {
	r, equal, flags := &calls[0].Request, len(calls), in.byte()
	switch flags {
	case markLate:
		return d, equal, errLate
	case markFailed:
		return d, equal, serverError(in.take(in.uint16()))
	case markCharge:
		return in.charged(r, parts, id, equal)
	}
	directories, recalled := flags&flagDirectories != 0, flags&flagRecalled != 0
	flags &^= flagDirectories | flagRecalled
	decider, retry, at, units := in.byte(), in.int(never), in.int(0), in.int(0)
	if flags&flagBanned != 0 {
		d.BanLeft = micros(in.int(0))
	}
	d.Charge = contract.ChargeOf(r)
	d.Charge.Data().Now = in.now
	usages := d.MakeUsages(contract.CountLimits(r.Claims))
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
			if l.index >= 0 {
				usages[p.position(l.index)] = in.usage()
			}
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
		if first, ok := contract.Recall(q.whole(), q.shape, in.take(in.uint16())); ok {
			d.Charge = first
			d.Charge.Data().Now = in.now
		}
	}
	if in.bad || flags&^flagsKnown != 0 || decider == 0 || int(decider) > len(r.Claims) ||
		flags&flagBanned != 0 && flags != flagBanned || flags&flagAllowed == 0 && at != 0 {
		return d, 0, badReply("a field is missing or out of range")
	}
	d.Allowed, d.Repeat, d.Banned = flags&flagAllowed != 0, flags&flagRepeat != 0, flags&flagBanned != 0
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

// charged reads the rest of an answer that begins with markCharge. For the result n, see
// reader.decision.
func (in *reader) charged(r *stint.Request, parts []part, id uint64, equal int) (d stint.Decision, n int, err error) {
	n = 1
	if equal > 1 {
		n = in.uint16()
	}
	d.Allowed = true
	d.Charge = contract.ChargeOf(r)
	data := d.Charge.Data()
	data.ID, data.At, data.Now = id, in.now, in.now
	usages := d.MakeUsages(contract.CountLimits(r.Claims))
	state := 0
	for i := range parts {
		if parts[i].holders() {
			usages[parts[i].position(0)] = stint.Usage{Used: in.int(0), ResetAfter: micros(in.int(0))}
			continue
		}
		number := int(in.byte()) - 1
		if number < 0 || number >= len(in.call.sets) || in.call.of[number] != parts[i].set {
			return d, 0, badReply("a set does not belong to the request")
		}
		s := in.call.sets[number]
		parts[i].set.fitted(s)
		text := in.take(s.size)
		if in.bad {
			break
		}
		contract.SetGeneration(&d.Charge, state, s.usages(text, in.now, &parts[i], usages))
		state++
	}
	if in.bad || n < 1 || n > equal {
		return d, 0, badReply("a field is missing or out of range")
	}
	return d, n, nil
}

// usages reads the header and the heads (see lua/state.lua) that a script wrote to a state at the
// time now. It fills in the usage of each requested limit, and returns the state's generation.
func (s *set) usages(text string, now int64, p *part, usages []stint.Usage) (generation uint32) {
	generation = le.Uint32([]byte(text))
	text = text[headerSize:]
	held := stint.Usage{} // usage by the held units of the next limit
	for i := range s.limits {
		l := &s.limits[i]
		var u stint.Usage
		if l.held {
			if held.Used = double(text); held.Used > 0 {
				held.ResetAfter = time.Duration(double(text[8:])-now) * time.Microsecond
			}
			if l.asked == askedNot {
				held = stint.Usage{} // these units may belong to a limit that the state lacks
			}
			text = text[logHead:]
			continue
		}
		if l.width > 0 {
			if u.Used = double(text); u.Used > 0 {
				u.ResetAfter = time.Duration(double(text[8:])+l.span-now) * time.Microsecond
			}
			text = text[logHead:]
		}
		if l.meter {
			if l.unit > 0 {
				level := double(text)
				u.Used = max(u.Used, ceil(level, l.unit))
				if level > 0 {
					u.ResetAfter = max(u.ResetAfter,
						time.Duration((now/l.tick+ceil(level, l.rate))*l.tick-now)*time.Microsecond)
				}
			}
			text = text[meterHead:]
		}
		u.Used, u.ResetAfter = u.Used+held.Used, max(u.ResetAfter, held.ResetAfter)
		held = stint.Usage{}
		if l.index >= 0 {
			usages[p.position(l.index)] = u
		}
	}
	return generation
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// double reads a number that a script has packed. It returns 0 for a number that no script writes.
func double(text string) int64 {
	v := math.Float64frombits(le.Uint64([]byte(text[:8])))
	if v >= 0 && v <= 1<<53 {
		return int64(v)
	}
	return 0
}

// amended is the outcome of an amendment. claims has the claims of the charge to which the
// amendment applied, as bits: bit i stands for claim i. total is the true cost of a settlement
// under these claims, and dropped is the number of its units that were not charged.
type amended struct {
	claims         uint16
	total, dropped int64
	repeated       bool // whether a refund was refused because the request had been repeated
}

// decodeAmend fills in the answers to amendments. It returns the amendments that the server refused
// as too late.
func (c *scriptCall) decodeAmend(batch []*amending, reply string) (late []*amending, err error) {
	in, err := c.open(reply)
	if err != nil {
		return nil, err
	}
	for _, q := range batch {
		mark := in.byte()
		if mark == markFailed {
			q.done, q.err = amended{}, serverError(in.take(in.uint16()))
			continue
		}
		q.done, q.err = amended{uint16(in.uint16()), in.int(0), in.int(0), mark == flagRepeat}, nil
		if mark == markLate {
			q.err = errLate
			late = append(late, q)
		}
	}
	if err := in.end(); err != nil {
		return nil, err
	}
	c.store.clock.learn(in.now, len(late) > 0)
	return late, nil
}

func (c *scriptCall) decodeCommand(reply string) error {
	in, err := c.open(reply)
	if err != nil {
		return err
	}
	return in.end()
}

func (c *scriptCall) decodeInspect(limits []stint.Limit, reply string) (driver.Inspection, error) {
	in, err := c.open(reply)
	if err != nil {
		return driver.Inspection{}, err
	}
	shown := driver.Inspection{
		Now:     contract.Instant(in.now),
		Ban:     driver.BanState{Until: in.instant(), Level: int(in.int(0)), Strikes: in.int(0)},
		Windows: make([]driver.Window, len(limits)),
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.holders() {
			in.window(&shown.Windows[p.position(0)], &limits[p.position(0)])
			continue
		}
		for _, l := range p.set.limits { // without a hold, the set has no entries for held units
			in.window(&shown.Windows[p.position(l.index)], &limits[p.position(l.index)])
		}
	}
	return shown, in.end()
}

func (in *reader) window(w *driver.Window, l *stint.Limit) {
	w.State = stint.State{Limit: l, Usage: in.usage()}
	w.Held = in.int(0)
	w.LeftOut = in.int(0)
	var entries []driver.Entry
	for n := in.uint16(); n > 0 && !in.bad; n-- {
		entries = append(entries, driver.Entry{At: in.instant(), Until: in.instant(), Units: in.int(0)})
	}
	contract.Show(w, entries)
}

// reader reads numbers from a reply. It sets bad if one is missing or out of range.
type reader struct {
	call *scriptCall
	text string
	at   int
	bad  bool
	now  int64 // time of the reply by the server's clock
}

// end returns an error if anything was missing or is left to read.
func (in *reader) end() error {
	if in.bad || in.at != len(in.text) {
		return badReply("it is too long or too short")
	}
	return nil
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

// int reads an integer between least and [stint.MaxUnits].
func (in *reader) int(least int64) int64 {
	v := math.Float64frombits(in.uint64())
	if v >= float64(least) && v <= float64(stint.MaxUnits) && v == math.Trunc(v) {
		return int64(v)
	}
	in.bad = true
	return 0
}

func (in *reader) usage() stint.Usage {
	return stint.Usage{Used: in.int(0), ResetAfter: micros(in.int(0)), RetryAfter: micros(in.int(never))}
}

// never stands for [stint.Never] in a reply.
const never = -1

// micros returns a duration of v microseconds, or [stint.Never] if v is never.
func micros(v int64) time.Duration {
	if v == never {
		return stint.Never
	}
	return time.Duration(v) * time.Microsecond
}

// instant reads a time. The number 0 means the zero time.
func (in *reader) instant() time.Time {
	us := in.int(0)
	if us == 0 {
		return time.Time{}
	}
	return contract.Instant(us)
}
