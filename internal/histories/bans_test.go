package histories

import (
	"slices"
	"time"
)

// bans holds admissions of a subject to the bans that callers were told of, and bans to the denials
// that can have led to them.
func (j *judge) bans(s int) {
	var all []*op
	for _, o := range j.ops {
		if o.cost(s) > 0 && o.told != nothing {
			all = append(all, o)
		}
	}
	for _, x := range all {
		switch {
		case x.told == allowed && !x.flat:
			if b := j.bannedFor(s, x, all); b != nil {
				j.object("ban", "subject %d: admitted although banned\n%v\n%v", s, b, x)
			}
		case x.banned:
			if until := j.banEnd(s, x); x.call+x.banLeft > until {
				j.object("ban", "subject %d: banned until %v, which should end by %v: %v", s, x.call+x.banLeft, until, x)
			}
		}
	}
}

// bannedFor returns an op that was told of a ban which was surely in force while another was
// decided; nil if there is none. What the server decides depends on the server's bans; what a
// process decides without it on those that the process was told of, if it is the only one.
func (j *judge) bannedFor(s int, x *op, all []*op) *op {
	for _, b := range all {
		// From memory, of at most a second ago, the ban ends later than in truth, by as long as its
		// answer took.
		if surely := b.call + b.banLeft - j.slowest(s, b); !b.banned || b.ret >= x.call || x.ret >= surely ||
			j.forgotten(s, b.call-remembered, x.ret) {
			continue
		}
		if !x.degraded && !b.degraded || x.degraded && len(j.processes) == 1 {
			return b
		}
	}
	return nil
}

// banEnd is when the last ban of a subject ends that an op can have met: every ban is made by a
// denial of a request, each denial counts once, and every ban takes as many of them.
func (j *judge) banEnd(s int, x *op) time.Duration {
	policy := j.subjects[s].bans
	strikes, last := 0, time.Duration(0)
	for _, o := range j.ops {
		// A denial by a ban is no strike. A request that was decided without the server may have
		// been denied by that too.
		if o.cost(s) == 0 || o.kind == wait || o.call > x.ret || o.told == allowed && !o.degraded ||
			o.banned && !o.degraded && !slices.Contains(policy.Durations, o.banLeft) {
			continue
		}
		strikes, last = strikes+1, max(last, min(j.decided(o), x.ret))
	}
	level := min(strikes/policy.After, len(policy.Durations))
	if level == 0 {
		return 0
	}
	return last + policy.Durations[level-1] + j.slowest(s, x)
}

// decided is the last instant at which a request may have been decided. Once a process has heard of
// the server, that does not run its requests any more when their time is up.
func (j *judge) decided(o *op) time.Duration {
	switch p := &j.processes[o.process]; {
	case o.told != failed && o.told != nothing && !o.degraded:
		return o.ret
	case o.ret == never || p.heard > o.call:
		return p.settled(max(o.call, min(o.ret, j.length)))
	default:
		return max(o.ret, o.call+j.budget)
	}
}

// slowest is how long an answer took at most that an op may have been told of again, from memory:
// so much later than in truth a ban seems to end.
func (j *judge) slowest(s int, x *op) (slowest time.Duration) {
	for _, o := range j.ops {
		if o.banned && o.kind != wait && o.cost(s) > 0 && o.call <= x.call {
			slowest = max(slowest, o.ret-o.call)
		}
	}
	return slowest
}
