package redisstore

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/keypart"
)

// scriptCall is a call of a script. Methods add its keys and arguments one after another, and
// complete joins them. It also has the data needed to read the reply: see decode.go. The files in
// lua document the order of the keys and the layout of the arguments.
type scriptCall struct {
	store  *Store
	script *script
	id     uint64 // the reply repeats it
	names  *names // nil if names are not hashed
	shown  bool   // whether names may be in hashed form, see newShownCall

	keys, args []string // KEYS and ARGV, set by complete

	keyText []byte // all keys, concatenated
	ends    []int  // where each key ends
	several int    // number of runs or amendments
	body    []byte // follows the sets of limits in the first argument
	parts   []part
	sets    []*set // set number n is sets[n-1]: first the requested sets, then others
	of      []*set // for each set, the requested set: the set itself, or the set that it replaces

	// The fields below are only for calls that decide; see batch.go.
	runs    []run
	rest    []run // runs on the same subjects, to decide next
	command rueidis.Completed
}

// newCall begins a call. It returns an error if nothing may be sent, see Store.refused.
func (s *Store) newCall(script *script, id uint64) (*scriptCall, error) {
	c := &scriptCall{store: s, script: script, id: id, names: s.names.Load(), args: []string{""}}
	if err := s.refused.Load(); err != nil {
		return c, *err
	}
	return c, nil
}

// newShownCall is newCall for operators' calls, which may name a subject or a scope in the hashed
// form that Bans and Scopes return. Requests may not: otherwise a subject that consists of "user#"
// and the hash of a second subject would share the usage of the second subject.
func (s *Store) newShownCall(script *script) (*scriptCall, error) {
	c, err := s.newCall(script, s.nextCall())
	c.shown = true
	return c, err
}

func (c *scriptCall) complete() *scriptCall {
	c.keys = make([]string, len(c.ends))
	text, start := string(c.keyText), 0
	for i, end := range c.ends {
		c.keys[i], start = text[start:end], end
	}
	b := make([]byte, 0, 256+len(c.body))
	b = le.AppendUint64(b, c.id)
	b = appendInt(b, c.store.clock.fixed())
	b = le.AppendUint32(b, uint32(c.id*0x9e3779b97f4a7c15>>32)) // the generation of states that the call creates
	b = le.AppendUint16(b, uint16(c.several))
	b = c.appendSets(b)
	c.args[0] = rueidis.BinaryString(append(b, c.body...))
	return c
}

// isPlain reports whether a request has no ID, no lease and no concurrency limits, and its cost may
// not be lowered.
func isPlain(r *stint.Request) bool {
	for _, l := range contract.Limits(r.Claims) {
		if isPlace(*l) {
			return false
		}
	}
	return r.ID == "" && !r.Terms().Fit && r.Terms().Lease == 0
}

func isPlace(l stint.Limit) bool { return l.Algorithm == stint.AlgorithmConcurrency }

// encodeTake returns the call that decides runs. The ids of their charges follow the call's id.
func (s *Store) encodeTake(runs []run, id uint64) (*scriptCall, error) {
	c, err := s.newCall(takeScript, id)
	if err != nil {
		return nil, err
	}
	c.runs = runs
	c.keyText, c.ends = make([]byte, 0, 64*len(runs)), make([]int, 0, 2*len(runs))
	c.parts, c.body = make([]part, 0, len(runs)), make([]byte, 0, 40*len(runs)+80)
	c.several = len(runs)
	for i := range runs {
		c.addRun(&runs[i], id+1)
		id += uint64(len(runs[i].calls))
	}
	return c.complete(), nil
}

// Kinds of runs. See lua/take.lua.
const (
	runPlain = iota
	runPlainBans
	runPlainPeek
	runPlainEqual
	runPlainHold
	runOther
)

// addRun adds a run. The ids of its charges begin with id.
func (c *scriptCall) addRun(q *run, id uint64) {
	r, equal := &q.calls[0].Request, len(q.calls)
	parts, keys := c.divide(r.Claims, r.Hold), len(c.ends)
	q.parts = len(parts)
	for i := range parts {
		c.partKey(&parts[i])
	}
	for i := range parts {
		if r.Hold > 0 && !parts[i].holders() {
			c.holdsKey(&parts[i])
		}
	}
	if contract.AppliesBans(r) {
		for _, what := range [...]string{banKey, strikesKey} {
			for i := range r.Claims {
				c.key(r.Claims[i].Subject, "", what)
			}
		}
	}
	if r.ID != "" {
		c.key(r.Claims[0].Subject, r.Claims[0].Scope, seenKey)
		c.args = append(c.args, c.names.id(r.ID))
	}

	plain := isPlain(r)
	takesOnly := plain && r.Mode == stint.ModeTake && r.Hold == 0
	form := byte(runPlain)
	switch {
	case len(parts) > 1 || !plain || equal > 1 && r.Bans != nil:
		form = runOther
	case equal > 1:
		form = runPlainEqual
	case r.Mode == stint.ModePeek && r.Hold == 0 && r.Bans == nil:
		form = runPlainPeek
	case r.Mode == stint.ModeTake && r.Hold > 0 && r.Bans == nil:
		form = runPlainHold
	case !takesOnly:
		form = runOther
	case r.Bans != nil:
		form = runPlainBans
	}
	b := append(c.body, form, c.number(parts[0].set))
	b = appendInt(appendInt(b, parts[0].cost()), c.store.clock.notAfter(q.deadline))
	if form == runPlain {
		c.body = b
		return
	}
	b = append(b, byte(len(parts)), byte(len(c.ends)-keys), oneIf(r.ID != ""))
	b = le.AppendUint16(b, uint16(equal))
	b = le.AppendUint16(b, 0) // length of the rest, set below
	rest := len(b)
	for i := range parts {
		p := &parts[i]
		if i > 0 {
			b = append(b, byte(p.index+1), c.number(p.set))
			b = appendInt(b, p.cost())
		}
		if p.holders() {
			b = appendTime(appendInt(b, p.limits[0].Max), p.limits[0].Window)
		}
	}
	if r.Bans != nil || !takesOnly {
		b = appendOptions(b, r, id)
	}
	if r.ID != "" {
		q.shape = c.shape(q.whole().Claims)
		note := contract.AppendNote(nil, q.whole(), q.shape, q.elsewhere)
		b = append(le.AppendUint16(b, uint16(len(note))), note...)
	}
	le.PutUint16(b[rest-2:], uint16(len(b)-rest))
	c.body = b
}

// appendOptions adds the options of a request, except its note. See lua/take.lua.
func appendOptions(b []byte, r *stint.Request, id uint64) []byte {
	var bans stint.BanPolicy
	if contract.AppliesBans(r) {
		bans = *r.Bans
	}
	mode := min(r.Mode, driver.ModeForce)
	b = append(b, byte(len(r.Claims)), byte(mode),
		oneIf(r.Terms().Fit || r.Terms().Lease > 0)+2*oneIf(r.Terms().AtLeast), oneIf(contract.AppliesBans(r)))
	shared := uint16(0)
	for i := range r.Claims {
		shared |= uint16(oneIf(r.Claims[i].Shared)) << i
	}
	b = append(le.AppendUint16(b, shared), byte(bans.After))
	wait := r.MaxWait
	if mode != driver.ModeForce {
		wait = contract.Longest(r)
	}
	b = appendTime(b, wait+time.Microsecond-1) // rounded up, so that a tiny maximum wait does not become 0
	booked := r.Terms().Booked
	if booked != nil {
		b = appendInt(b, booked.At)
	} else {
		b = appendInt(b, 0)
	}
	for _, d := range [...]time.Duration{
		contract.Life(r), r.Terms().Lease, contract.Grace(r), bans.Within, bans.Forgive, r.Hold,
	} {
		b = appendTime(b, d)
	}
	b = append(le.AppendUint64(b, id), byte(len(bans.Durations)))
	for _, d := range bans.Durations {
		b = appendTime(b, d)
	}
	if mode == driver.ModeForce {
		b = appendTime(appendTime(b, r.Terms().Age), r.Terms().Refilled)
	}
	if booked != nil && booked.At > 0 {
		for i := range contract.CountStates(r.Claims) {
			b = le.AppendUint32(b, booked.GenerationAt(i))
		}
	}
	return b
}

// shape returns the [contract.Shape] of claims, with subjects and scopes as they are in keys.
func (c *scriptCall) shape(claims []stint.Claim) uint32 {
	k := scriptCall{store: c.store, names: c.names}
	for i := range claims {
		k.key(claims[i].Subject, claims[i].Scope, "")
	}
	return contract.Shape(claims, k.keyText)
}

// encodeAmend returns the call that makes amendments. A heartbeat carries a not-after (see
// heartbeatDeadline), because a heartbeat that ran later could retake a place that was released in
// the meantime.
func (s *Store) encodeAmend(ctx context.Context, batch []*amending) (*scriptCall, error) {
	c, err := s.newCall(amendScript, s.nextCall())
	if err != nil {
		return nil, err
	}
	c.keyText, c.ends = make([]byte, 0, 64*len(batch)), make([]int, 0, 2*len(batch))
	c.parts, c.body = make([]part, 0, len(batch)), make([]byte, 0, 80*len(batch)+2)
	c.several = len(batch)
	for _, q := range batch {
		notAfter, retake := int64(0), s.retakes(&q.charge, q.Amendment)
		if q.Amendment.Kind == stint.AmendExtend {
			if notAfter = s.clock.notAfter(heartbeatDeadline(ctx, q)); notAfter == 0 && s.clock.fixed() == 0 {
				retake = 0 // the server's time is unknown, so the heartbeat cannot carry a not-after
			}
		}
		c.addAmendment(&q.charge, q.Amendment, notAfter, retake)
	}
	return c.complete(), nil
}

// addAmendment adds an amendment. The bits of retake are set for the claims that may retake lost
// places.
func (c *scriptCall) addAmendment(charge *stint.Charge, a stint.Amendment, notAfter int64, retake uint16) {
	data, claims := charge.Data(), charge.Claims()
	b := append(c.body, byte(a.Kind), oneIf(a.Cost == 0 && a.Costs == nil), oneIf(a.Costs != nil))
	b = appendInt(appendTime(b, data.Hold), a.MaxDebt)
	b = appendTime(le.AppendUint64(b, data.ID), data.IDLife)
	b = le.AppendUint16(appendInt(b, notAfter), retake)
	b = append(b, oneIf(data.RequestID != ""), byte(len(claims)))
	state := 0
	for i := range claims {
		parts := c.divide(claims[i:i+1], data.Hold)
		b = append(appendInt(b, data.AtOf(i)), byte(len(parts)))
		if c.key(claims[i].Subject, claims[i].Scope, settledKey); len(parts) == 0 {
			b = append(b, make([]byte, 1+3*8)...)
		}
		for j := range parts {
			p := &parts[j]
			c.partKey(p)
			total, named := contract.TotalOf(&a, p.limits[0].Name)
			if !named && a.Kind == stint.AmendExtend {
				total = 0 // no cost was reported for these limits
			} else if !named {
				total = -1
			}
			b = appendInt(appendInt(append(b, c.number(p.set)), p.cost()), total)
			if p.holders() {
				b = appendTime(b, p.limits[0].Window)
				continue
			}
			if data.Hold > 0 {
				c.holdsKey(p)
			}
			b = appendInt(b, int64(data.GenerationAt(state)))
			state++
		}
	}
	if data.RequestID != "" {
		c.key(claims[0].Subject, claims[0].Scope, seenKey)
		c.args = append(c.args, c.names.id(data.RequestID))
	}
	c.body = b
}

// encodeCommand returns the call that executes a command, or nil if there is nothing to do.
func (s *Store) encodeCommand(command *stint.Command) (*scriptCall, error) {
	c, err := s.newShownCall(commandScript)
	if err != nil {
		return nil, err
	}
	var states, places []part
	amount, resets := command.For.Microseconds(), command.Kind == stint.CommandReset
	switch command.Kind {
	case stint.CommandGiveBack:
		// Requests cause this command, so its names are never in hashed form.
		amount, c.shown = command.Units, false
		fallthrough
	case stint.CommandReset:
		states = c.divide([]stint.Claim{{Subject: command.Subject, Scope: command.Scope, Limits: command.Limits}}, 0)
		n := 0
		for n < len(states) && !states[n].holders() {
			n++
		}
		states, places = states[:n], states[n:]
		if !resets && n == 0 {
			return nil, nil // only concurrency limits: places are released, not given back
		}
	default:
		c.key(command.Subject, "", banKey)
		c.key(command.Subject, "", strikesKey)
	}
	c.body = append(appendInt(append(c.body, byte(command.Kind)), amount), byte(len(states)))
	for i := range states {
		c.body = append(c.body, c.number(states[i].set))
	}
	if resets {
		c.key(command.Subject, command.Scope, settledKey)
		c.key(command.Subject, command.Scope, seenKey)
		c.body = append(c.body, byte(len(places)))
		for i := range places {
			id := places[i].limits[0].ID()
			c.body = append(append(appendTime(c.body, places[i].limits[0].Window), byte(len(id))), id...)
			c.partKey(&places[i])
		}
	}
	for i := range states {
		c.partKey(&states[i])
	}
	return c.complete(), nil
}

func (s *Store) encodeInspect(claim stint.Claim) (*scriptCall, error) {
	c, err := s.newShownCall(inspectScript)
	if err != nil {
		return nil, err
	}
	c.key(claim.Subject, "", banKey)
	c.key(claim.Subject, "", strikesKey)
	parts := c.divide([]stint.Claim{claim}, 0)
	c.body = append(le.AppendUint16(c.body, driver.MaxEntries), byte(len(parts)))
	for i := range parts {
		p := &parts[i]
		c.partKey(p)
		if c.body = append(c.body, c.number(p.set)); p.holders() {
			c.body = appendTime(appendInt(c.body, p.limits[0].Max), p.limits[0].Window)
		}
	}
	return c.complete(), nil
}

// part holds the limits of a claim that share a key: all limits with the same name except
// concurrency limits, or a single concurrency limit.
type part struct {
	claim     *stint.Claim
	index     int // index of the claim
	limits    []stint.Limit
	positions []uint8 // index of each limit in the claim; nil if limits has all limits of the claim
	first     int     // index of the claim's first limit among the limits of all claims
	set       *set    // nil for a concurrency limit
	hold      time.Duration
}

func (p *part) cost() int64 { return p.claim.CostOf(&p.limits[0]) }

// holders reports whether the part is a concurrency limit.
func (p *part) holders() bool { return isPlace(p.limits[0]) }

// position returns the index of the part's ith limit among the limits of all claims.
func (p *part) position(i int) int {
	if p.positions != nil {
		i = int(p.positions[i])
	}
	return p.first + i
}

// divide adds the parts of claims to the call, and returns them. hold is the length of the
// request's hold, or 0. For each claim, the parts with a state come first, in the order of
// contract.StateNames. The concurrency limits follow.
func (c *scriptCall) divide(claims []stint.Claim, hold time.Duration) []part {
	before, first := len(c.parts), 0
	for i := range claims {
		claim := &claims[i]
		p := part{claim: claim, index: i, first: first, hold: hold}
		first += len(claim.Limits)
		if p.limits = claim.Limits; len(p.limits) > 0 && uniform(p.limits) { // the usual case
			c.addPart(p)
			continue
		}
		var buf [stint.MaxLimits]string
		for _, name := range contract.StateNames(claim, buf[:0]) {
			p.limits, p.positions = nil, nil
			for j, l := range claim.Limits {
				if l.Name == name && !isPlace(l) {
					p.limits, p.positions = append(p.limits, l), append(p.positions, uint8(j))
				}
			}
			c.addPart(p)
		}
		for j, l := range claim.Limits {
			if isPlace(l) {
				p.limits, p.positions = claim.Limits[j:j+1], []uint8{uint8(j)}
				c.addPart(p)
			}
		}
	}
	return c.parts[before:]
}

func (c *scriptCall) addPart(p part) {
	n := len(c.parts) - 1
	if n >= 0 && len(c.parts[n].limits) == len(p.limits) && &c.parts[n].limits[0] == &p.limits[0] &&
		c.parts[n].hold == p.hold {
		p.set = c.parts[n].set // the usual case in a batch
	} else if !p.holders() {
		p.set = c.store.sets.of(p.limits, p.hold, c.store.clock.now)
	}
	c.parts = append(c.parts, p)
}

// uniform reports whether a single state counts all limits: they have the same name, and none is a
// concurrency limit.
func uniform(limits []stint.Limit) bool {
	for i := range limits {
		if isPlace(limits[i]) || limits[i].Name != limits[0].Name {
			return false
		}
	}
	return true
}

// The ends of keys. For limits with a name, stateKey and holdsKey are followed by a slash and the
// name.
const (
	stateKey   = "limits"
	holdsKey   = "holds" // for the holds of a state
	seenKey    = "seen"
	settledKey = "settled"
	banKey     = "ban"
	strikesKey = "strikes"
)

// key adds a key for a subject in a scope. The scope is "" for limits without a scope, and for the
// subject's ban and strikes.
func (c *scriptCall) key(subject, scope, end string) {
	c.keyText = append(c.beginKey(c.keyText, subject, scope), end...)
	c.ends = append(c.ends, len(c.keyText))
}

// partKey adds the key of a part: a state, or the holders of a limit.
func (c *scriptCall) partKey(p *part) {
	c.keyText = p.appendEnd(c.beginKey(c.keyText, p.claim.Subject, p.claim.Scope))
	c.ends = append(c.ends, len(c.keyText))
}

// holdsKey adds the key of the holds of a part with a state.
func (c *scriptCall) holdsKey(p *part) {
	c.keyText = p.appendName(append(c.beginKey(c.keyText, p.claim.Subject, p.claim.Scope), holdsKey...))
	c.ends = append(c.ends, len(c.keyText))
}

func (p *part) appendEnd(b []byte) []byte {
	if p.holders() {
		return append(b, p.limits[0].ID()...)
	}
	return p.appendName(append(b, stateKey...))
}

func (p *part) appendName(b []byte) []byte {
	if name := p.limits[0].Name; name != "" {
		b = append(append(b, '/'), name...)
	}
	return b
}

// beginKey adds the beginning of a key: prefix, hash tag and scope.
func (c *scriptCall) beginKey(b []byte, subject, scope string) []byte {
	b = append(append(b, c.store.prefix...), ":{"...)
	switch {
	case c.names == nil:
		b = keypart.Append(b, subject, true)
	case c.shown && keypart.IsHashed(subject):
		b = append(b, subject...)
	default:
		b = c.names.appendSubject(b, subject)
	}
	if b = append(b, "}:"...); scope == "" {
		return b
	}
	if before, sum, ok := keypart.SumIn(scope); c.names == nil {
		b = keypart.Append(b, scope, false)
	} else if c.shown && ok {
		b = keypart.AppendSum(keypart.Append(b, before, false), sum)
	} else {
		b = c.names.appendScope(b, scope)
	}
	return append(b, ':')
}

const maxCallSets = 255

// number returns the number of s in the call, or 0 if s is nil. It adds s to the call if necessary.
func (c *scriptCall) number(s *set) byte {
	if s == nil {
		return 0
	}
	i := slices.Index(c.sets, s)
	if i < 0 {
		i = len(c.sets)
		c.sets, c.of = append(c.sets, s), append(c.of, s)
	}
	return byte(i + 1)
}

// appendSets adds the sets in the form that lua/sets.lua reads. For each requested set, it adds the
// set and its others, or as many of them as there are numbers for. Unless there are too many sets,
// the one that fit the most recently charged state comes first.
func (c *scriptCall) appendSets(b []byte) []byte {
	asked := len(c.sets)
	b = append(b, byte(asked))
	for i, s := range c.of[:asked] {
		if usual := s.usual.Load(); usual != nil && 2*asked <= maxCallSets {
			c.sets[i] = usual
		}
		first, at := c.sets[i], len(b)
		b = first.appendTo(b, i+1)
		others := len(b)
		for n, o := range append([]*set{s}, s.known()...) {
			if o == first || n > 0 && len(c.sets)+asked-i > maxCallSets { // leave numbers for the remaining sets
				continue
			}
			c.sets, c.of = append(c.sets, o), append(c.of, s)
			b = o.appendTo(le.AppendUint16(b, uint16(len(o.packed))), len(c.sets))
		}
		if len(b) > others {
			b = append(b, 0, 0)
			le.PutUint16(b[at+first.numberAt+1:], uint16(len(b)-others))
			b[at+first.numberAt+3] = oneIf(first == s)
		}
	}
	return b
}

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

func appendInt(b []byte, v int64) []byte { return le.AppendUint64(b, math.Float64bits(float64(v))) }

func appendTime(b []byte, d time.Duration) []byte { return appendInt(b, d.Microseconds()) }

func oneIf(yes bool) byte {
	if yes {
		return 1
	}
	return 0
}
