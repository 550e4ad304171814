package redisstore

import (
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// scriptCall is one call of take.lua.
type scriptCall struct {
	store *Store
	runs  []run
	parts []part // of all runs
	sets  callSets
	call  uint64 // its id, see firstCharge
	kind  int    // the highest of its runs
	keys  []string
	args  []string
}

// pack makes a script call of runs. The error says why it must not be sent.
func (s *Store) pack(runs []run, call uint64) (*scriptCall, error) {
	c := &scriptCall{store: s, runs: runs, parts: make([]part, 0, len(runs)), call: call}
	for i := range runs {
		r, before := &runs[i].calls[0].Request, len(c.parts)
		c.parts = partsOf(c.parts, r.Claims)
		runs[i].parts = len(c.parts) - before
		c.kind = max(c.kind, kindOf(r))
	}
	s.sets.fill(c.parts)
	k, err := s.newKeys()
	if err != nil {
		return c, err
	}
	k.buf, k.ends = make([]byte, 0, 64*len(runs)), make([]int, 0, 2*len(runs))
	body := make([]byte, 0, 40*len(c.parts)+80)
	body = le.AppendUint16(body, uint16(len(runs)))
	args := []string{""}
	id, parts := c.firstCharge(), c.parts
	for i := range runs {
		q := &runs[i]
		r, before := &q.calls[0].Request, len(k.ends)
		k.ofRequest(r, parts[:q.parts])
		if r.ID != "" {
			q.shape = k.shape(q.whole().Claims)
		}
		body = appendRun(body, q, parts[:q.parts], len(k.ends)-before, s.notAfter(q.deadline), id, &c.sets)
		parts = parts[q.parts:]
		if r.ID != "" {
			args = append(args, k.names.id(r.ID))
		}
		id += uint64(len(q.calls))
	}
	b := appendStart(make([]byte, 0, 256+len(body)), call, s.clock())
	b = c.sets.appendTo(b)
	args[0] = rueidis.BinaryString(append(b, body...))
	c.keys, c.args = k.strings(), args
	return c, nil
}

// firstCharge is the id of the first charge: that of the call if there is only one request, else
// the one after it. Those of other charges follow.
func (c *scriptCall) firstCharge() uint64 {
	if len(c.runs) == 1 && len(c.runs[0].calls) == 1 {
		return c.call
	}
	return c.call + 1
}

// answer fills in the decisions of a reply. It returns the calls that the server refused as too
// late though they have time left.
func (c *scriptCall) answer(reply string, err error) (late []*driver.Call) {
	if err == nil {
		late, err = c.read(reply)
	}
	if err != nil {
		for i := range c.runs {
			fail(c.runs[i].calls, err)
		}
		return nil
	}
	return late
}

// read is answer for a reply without an error. If a part of it cannot be read, neither can the
// rest: where that begins is not known.
func (c *scriptCall) read(reply string) (late []*driver.Call, err error) {
	in, now, err := opening(reply, c.call)
	if err != nil {
		return nil, err
	}
	in.sets = &c.sets
	id, rest := c.firstCharge(), c.parts
	tooLate := false
	for i := range c.runs {
		calls, parts := c.runs[i].calls, rest[:c.runs[i].parts]
		rest = rest[len(parts):]
		for len(calls) > 0 {
			n, err := in.answerRun(&c.runs[i], calls, parts, now, id)
			if errors.Is(err, errReply) {
				return nil, err
			}
			if err == errLate {
				tooLate = true
				for _, call := range calls {
					if time.Until(call.Deadline) > 0 {
						late = append(late, call)
					}
				}
			}
			id += uint64(n)
			calls = calls[n:]
		}
	}
	if err := in.end(); err != nil {
		return nil, err
	}
	c.store.learnTime(now, tooLate)
	return late, nil
}

func fail(calls []*driver.Call, err error) {
	for _, c := range calls {
		c.Decision, c.Err = stint.Decision{}, err
	}
}

// answerRun fills in the next answer of a run. It returns how many calls that is for: those that
// were allowed together, or all.
func (in *reader) answerRun(q *run, calls []*driver.Call, parts []part, now int64, id uint64) (int, error) {
	r := &calls[0].Request
	d, n, err := in.decision(q, r, parts, now, id, len(calls))
	if err != nil {
		fail(calls, err)
		return len(calls), err
	}
	usages := d.Usages()
	for i, c := range calls[:n] {
		c.Decision, c.Err = d, nil
		if n == 1 {
			break
		}
		c.Decision.Charge.SetClaims(c.Request.Claims)
		own := c.Decision.MakeUsages(len(usages))
		copy(own, usages)
		if d.Allowed {
			c.Decision.Charge.Data().ID = id + uint64(i)
			for j := range own { // as it was when it was this one's turn
				own[j].Used -= int64(n-1-i) * r.Claims[0].Cost
			}
		}
	}
	return n, nil
}
