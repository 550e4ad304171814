package histories

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
)

// history is what callers were told and when, and what happened to the world meanwhile. All
// instants are durations since its start.
type history struct {
	subjects  []subject
	processes []process
	ops       []*op
	losses    []span // of the server's state: from its end until it is back
	resets    []reset
	budget    time.Duration
	length    time.Duration
	skew      time.Duration // by which the server's clock was set, all steps together
	readings  []reading
	unknowns  []unknown
}

// subject is somebody who is limited.
type subject struct {
	name   string
	limits []stint.Limit // one of places, or several of rates
	bans   *stint.BanPolicy
	// ledger says that its requests carry another limit that counts all there is and never denies.
	ledger bool
	mode   stint.FailureMode
	hold   time.Duration // of its requests, all of which are streams if they have one
	ids    bool          // which have ids
}

// places reports whether its limit is one of places.
func (s *subject) places() bool { return s.limits[0].Algorithm == stint.AlgorithmConcurrency }

// capacity is the largest cost that all of its limits have room for.
func (s *subject) capacity() int64 {
	least := s.limits[0].Capacity()
	for i := range s.limits {
		least = min(least, s.limits[i].Capacity())
	}
	return least
}

// process is one stack: one that starts again is another.
type process struct {
	born, died time.Duration // died is never if it lives to the end
	instances  int           // how many share the store, as it is to know
	troubles   []span        // when the server, its way there or the process itself was not well
	cuts       []span        // when its connection was lost
	starved    []span
	delayed    []span        // when a message may have been under way for long
	unsure     []doubt       // when what it owes was sent, and may have been charged
	dark       []span        // when no answer of the server's could reach it
	heard      time.Duration // when it had its first answer of the server's; never if it had none
}

// doubt is a charge of what a process owes of a subject that was sent and not answered.
type doubt struct {
	subject int
	at      time.Duration
}

// span is from one instant to another.
type span struct{ from, to time.Duration }

// never is later than everything.
const never = time.Duration(1<<63 - 1)

type kind uint8

const (
	take kind = iota
	wait
	hold // take a place and keep it
	stream
)

// outcome is what a caller was told.
type outcome uint8

const (
	nothing outcome = iota // its process died first
	allowed
	denied
	failed
)

var outcomeNames = [...]string{"nothing", "allowed", "denied", "an error"}

// op is a question and its answer.
type op struct {
	kind     kind
	process  int
	claims   []claim
	id       string
	mode     stint.FailureMode
	deadline time.Duration // how long its caller wants to wait for the answer; 0 is for as long as it takes
	ahead    time.Duration // how far ahead a waiter may book: it may give up before
	call     time.Duration
	ret      time.Duration
	told     outcome
	degraded bool
	repeat   bool
	banned   bool
	banLeft  time.Duration
	flat     bool // nobody looked at the limits: the failure mode alone decided

	amends []amend
	gone   time.Duration // of a place: when its holder gave it back or was told that it is lost; never while it holds
	freed  time.Duration // when the giving back was acknowledged; never if it was not
	giving span          // of that

	truth int64 // of a stream, what it uses
	beats []beat
}

type claim struct {
	subject int
	cost    int64
}

// amend is a refund or a settlement.
type amend struct {
	call, ret time.Duration
	cost      int64 // the true one
	applied   bool
	failed    bool   // an error: it may or may not have applied, or will
	apart     bool   // it is of one quantity,
	name      string // which has this name
}

type reset struct {
	span
	subject int
}

// reading is what the server says at the end.
type reading struct {
	subject int
	ledger  int64 // units that it counts
	places  int64
	held    int64
}

// unknown is units that a process cannot account for: charged, or not given back, by a script of
// which no reply reached it in time. They count from an instant on, as if charged at another.
type unknown struct {
	span
	subject int
	n       int64
}

func (o *op) cost(subject int) int64 {
	for _, c := range o.claims {
		if c.subject == subject {
			return c.cost
		}
	}
	return 0
}

// least and most are the bounds of what an op that was allowed counts for at an instant, given what
// became of it since.
func (o *op) least(subject int, at time.Duration) int64 {
	n := o.cost(subject)
	for _, a := range o.amends {
		if a.call <= at && (a.applied || a.failed) {
			n = min(n, a.cost)
		}
	}
	return n
}

func (j *judge) most(o *op, subject int, at time.Duration) int64 {
	n := o.cost(subject)
	for _, a := range o.amends {
		switch {
		case a.applied && j.applied(o, a) < at:
			n = a.cost
		case a.call <= at:
			n = max(n, a.cost)
		}
	}
	return n
}

// applied is when an amendment that was accepted is surely done: at once while the server is well,
// else as soon as everything that the process has begun, and never if it dies before.
func (j *judge) applied(o *op, a amend) time.Duration {
	if p := &j.processes[o.process]; o.degraded || a.failed || !p.well(a.call-steady, a.ret) {
		return p.charged(a.ret)
	}
	return a.ret
}

// final are the bounds of what an op that was allowed has cost in the end.
func (j *judge) final(o *op, subject int) (least, most int64) {
	least = o.cost(subject)
	most = least
	for _, a := range o.amends {
		switch {
		case a.applied && j.processes[o.process].charged(a.ret) != never:
			least, most = a.cost, a.cost
		case a.applied || a.failed:
			least, most = min(least, a.cost), max(most, a.cost)
		}
	}
	return least, most
}

// turnedAway reports whether a caller was not admitted, although the server may have charged it.
func (o *op) turnedAway() bool { return o.told == failed || o.told == denied && o.degraded }

func (o *op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "process %d, %v to %v: ", o.process, o.call, o.ret)
	b.WriteString([...]string{"take", "wait", "hold", "stream"}[o.kind])
	for _, c := range o.claims {
		fmt.Fprintf(&b, " %d of %d", c.cost, c.subject)
	}
	if o.id != "" {
		b.WriteString(" id " + o.id)
	}
	if o.deadline > 0 {
		fmt.Fprintf(&b, " within %v", o.deadline)
	}
	b.WriteString(": " + outcomeNames[o.told])
	if o.degraded {
		b.WriteString(", degraded")
	}
	if o.flat {
		b.WriteString(", flat")
	}
	if o.repeat {
		b.WriteString(", repeat")
	}
	if o.banned {
		fmt.Fprintf(&b, ", banned for %v", o.banLeft)
	}
	for _, beat := range o.beats {
		fmt.Fprintf(&b, "; reported %d at %v to %v: open %v, failed %v",
			beat.total, beat.call, beat.ret, beat.open, beat.failed)
	}
	for _, a := range o.amends {
		fmt.Fprintf(&b, "; %s settled to %d at %v to %v: applied %v, failed %v", a.name, a.cost, a.call, a.ret, a.applied, a.failed)
	}
	if o.kind == hold && o.told == allowed {
		fmt.Fprintf(&b, "; gone %v", o.gone)
	}
	return b.String()
}

// String tells the whole history, for people.
func (h *history) String() string {
	var b strings.Builder
	for i, s := range h.subjects {
		fmt.Fprintf(&b, "subject %d: %v, ledger %v, %v, bans %+v\n", i, s.limits, s.ledger, s.mode, s.bans)
	}
	for i, p := range h.processes {
		fmt.Fprintf(&b, "process %d of %d: born %v, died %v, heard %v, troubles %v, starved %v\n",
			i, p.instances, p.born, p.died, p.heard, p.troubles, p.starved)
	}
	fmt.Fprintf(&b, "losses %v, resets %v, readings %+v, unknown %+v\n", h.losses, h.resets, h.readings, h.unknowns)
	for _, o := range h.ops {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}
