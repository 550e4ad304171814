package stint

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/stint-limiter/stint/internal/messages"
)

// mistakes collects the rules that a value breaks. Each rule is checked in only one place. If no
// rule is broken and there are no Costs, checking allocates nothing, so it can be done on the
// request path.
type mistakes struct {
	claim int // 1 + i while Claims[i] is checked and there are several claims; else 0
	errs  []error
}

func (m *mistakes) add(format string, args ...any) {
	if m.claim > 0 {
		format = fmt.Sprintf("Claims[%d].", m.claim-1) + format
	}
	m.errs = append(m.errs, fmt.Errorf(format, args...))
}

func (m *mistakes) err() error { return errors.Join(m.errs...) }

// invalid returns all mistakes in an [*InvalidError], or nil if there are none.
func (m *mistakes) invalid() error {
	if len(m.errs) == 0 {
		return nil
	}
	return &InvalidError{m.err()}
}

// Validate reports everything that is wrong with the limit, and how to correct it, in one
// [*InvalidError].
func (l Limit) Validate() error {
	var m mistakes
	l.check(&m)
	return m.invalid()
}

func (l *Limit) check(m *mistakes) {
	if l.Max < 0 || l.Max > MaxUnits {
		m.add("a maximum of %d; want 0 to %d", l.Max, MaxUnits)
	}
	if l.Window < MinWindow || l.Window > MaxWindow {
		m.add("a window of %v; want %v to %d days", l.Window, MinWindow, MaxWindow/day)
	} else if l.Window%time.Microsecond != 0 {
		m.add("a window of %v; want whole microseconds", l.Window)
	}
	switch l.Algorithm {
	case AlgorithmSliding:
		if l.Burst == 0 {
			break
		}
		if l.Burst < 0 || l.Max <= 0 || l.Burst%l.Max != 0 || l.Burst/l.Max > MaxBurst {
			m.add("a burst of %d; want a multiple of the maximum of %d, at most %d times", l.Burst, l.Max, MaxBurst)
		} else if l.Burst > MaxUnits {
			m.add("a burst of %d; want at most %d units", l.Burst, MaxUnits)
		} else if l.hasMeter() && l.Window > 0 && !l.meterFits() {
			m.add("a burst of %d refilled at %d per %v cannot be counted exactly; want %s",
				l.Burst, l.Max, l.Window, meterHint)
		}
	case AlgorithmBucket:
		if l.Burst < 0 || l.Burst > MaxUnits {
			m.add("a burst of %d; want 0 to %d", l.Burst, MaxUnits)
		} else if l.Max > 0 && l.Window > 0 && !l.meterFits() {
			m.add("a bucket of %d refilled at %d per %v cannot be counted exactly; "+
				"want %s, and full again within %d days",
				l.Capacity(), l.Max, l.Window, meterHint, MaxBurst*MaxWindow/day)
		}
	case AlgorithmFixed, AlgorithmConcurrency, AlgorithmCalendar:
		if l.Burst != 0 {
			m.add("a burst of %d; a %v limit has none", l.Burst, l.Algorithm)
		}
	default:
		m.add("Algorithm is %d; want AlgorithmSliding, AlgorithmBucket, AlgorithmFixed, "+
			"AlgorithmConcurrency or AlgorithmCalendar", l.Algorithm)
	}
	l.checkCalendar(m)
	if l.Leased && !l.canLease() {
		m.add("a %v limit cannot be leased; want sliding, fixed or calendar", l.Algorithm)
	}
	if l.HoldThrough && !l.canHold() {
		m.add("a %v limit cannot hold through; want sliding without a burst, fixed or calendar", l.Algorithm)
	}
	if l.ChargeExpired && !l.canHold() {
		m.add("a %v limit holds nothing that expires; want sliding without a burst, fixed or calendar", l.Algorithm)
	}
	if l.Name != "" && !validName(l.Name) {
		m.add("the name %q; want at most %d letters, digits, '_', '-' or '.'", l.Name, maxName)
	}
}

func (c *Claim) check(m *mistakes) {
	c.checkSubject(m)
	if c.Cost < 0 || c.Cost > MaxUnits {
		m.add("Cost is %d; want 0 to %d", c.Cost, MaxUnits)
	}
	c.Costs.check(m, c.Limits)
	if len(c.Limits) == 0 || len(c.Limits) > MaxLimits {
		m.add("%d limits; want 1 to %d", len(c.Limits), MaxLimits)
	}
	c.checkLimits(m)
}

func (c *Claim) checkSubject(m *mistakes) {
	if c.Subject == "" || len(c.Subject) > MaxSubject {
		m.add("Subject has %d bytes; want 1 to %d", len(c.Subject), MaxSubject)
	}
	if len(c.Scope) > MaxSubject {
		m.add("Scope has %d bytes; want at most %d", len(c.Scope), MaxSubject)
	}
}

// checkLimits records what is wrong with the limits. It does not check their number.
func (c *Claim) checkLimits(m *mistakes) {
	for i := range c.Limits {
		var own mistakes
		if c.Limits[i].check(&own); own.errs != nil {
			m.add("Limits[%d] (%s): %w", i, c.Limits[i], own.err())
		}
		if slices.ContainsFunc(c.Limits[:i], func(l Limit) bool { return l.sameID(&c.Limits[i]) }) {
			m.add("Limits[%d] (%s) has the same name, algorithm and window as an earlier one; "+
				"give one of them a Name", i, c.Limits[i])
		}
	}
}

// check records costs that are out of bounds, and costs with a name that no limit has.
func (c Costs) check(m *mistakes, limits []Limit) {
	if c == nil {
		return // collecting keys allocates even if the map is nil
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if cost := c[name]; cost < 0 || cost > MaxUnits {
			m.add("Costs[%q] is %d; want 0 to %d", name, cost, MaxUnits)
		}
		if !slices.ContainsFunc(limits, func(l Limit) bool { return l.Name == name }) {
			m.add("Costs[%q]: no limit has that name%s", name, messages.Hint(name, appendNames(nil, limits)))
		}
	}
}

func appendNames(names []string, limits []Limit) []string {
	for i := range limits {
		names = append(names, limits[i].Name)
	}
	return names
}

// Validate reports everything that is wrong with the request, in one [*InvalidError]. Stores may
// rely on requests being valid.
func (r *Request) Validate() error {
	var m mistakes
	r.check(&m)
	return m.invalid()
}

func (r *Request) check(m *mistakes) {
	if len(r.Claims) == 0 || len(r.Claims) > MaxClaims {
		m.add("%d claims; want 1 to %d", len(r.Claims), MaxClaims)
	}
	total := 0
	for i := range r.Claims {
		if len(r.Claims) > 1 {
			m.claim = i + 1
		}
		r.Claims[i].check(m)
		m.claim = 0
		total += len(r.Claims[i].Limits)
		if r.Hold != 0 && r.sharesLimit(i, true) {
			m.add("Claims[%d] and an earlier one hold units of limits with the same name on subject %s; want one claim, "+
				"with Costs by names if they differ", i, quote(r.Claims[i].Subject))
		} else if r.sharesLimit(i, false) {
			m.add("Claims[%d] repeats a limit of an earlier claim on subject %s; want each once",
				i, quote(r.Claims[i].Subject))
		}
	}
	if total > MaxTotal {
		m.add("%d limits in all claims; want at most %d", total, MaxTotal)
	}
	if len(r.ID) > MaxSubject {
		m.add("ID has %d bytes; want at most %d", len(r.ID), MaxSubject)
	}
	if r.IDLife < 0 || r.IDLife > MaxWindow || r.IDLife%time.Microsecond != 0 {
		m.add("IDLife is %v; want whole microseconds from 0 to %d days", r.IDLife, MaxWindow/day)
	}
	if r.Hold < 0 || r.Hold > MaxHold || r.Hold%time.Microsecond != 0 || r.Hold != 0 && r.Hold < MinWindow {
		m.add("Hold is %v; want whole microseconds from %v to %v, or 0", r.Hold, MinWindow, MaxHold)
	}
	if r.Hold != 0 && (r.Mode == ModeReserve || r.Mode == modeForce && r.MaxWait != 0) {
		m.add("Hold is %v; want 0 with ModeReserve: a hold begins at once. Take again after RetryAfter", r.Hold)
	}
	if r.MaxWait < 0 || r.MaxWait > MaxWindow*MaxBurst {
		m.add("MaxWait is %v; want 0 to %v", r.MaxWait, MaxWindow*MaxBurst)
	}
	if b := r.terms.Booked; b != nil && (r.Mode != ModeReserve || b.At <= 0 || b.At > MaxUnits) {
		m.add("Booked is at %d; want none, or with ModeReserve the charge of a booking", b.At)
	}
	if r.terms.Tentative && r.Mode != ModeReserve {
		m.add("Tentative is set; want it with ModeReserve only")
	}
	if t := &r.terms; (t.Age != 0 || t.Refilled != 0) &&
		(r.Mode != modeForce || r.MaxWait != 0 || t.Age < 0 || t.Refilled < 0) {
		m.add("Age is %v and Refilled is %v; want 0, or with ModeForce without MaxWait at least 0", t.Age, t.Refilled)
	}
	if r.terms.AtLeast && (r.Mode != modeForce || r.MaxWait != 0 || r.Hold != 0 || len(r.Claims) != 1) {
		m.add("AtLeast is set; want it only with ModeForce with one claim, without MaxWait and Hold")
	}
	if r.Mode > modeForce {
		m.add("Mode is %d; want ModeTake, ModePeek or ModeReserve", r.Mode)
	}
	if !r.leaseFits() {
		m.add("Fit is %v and Lease is %v; want ModeTake with one claim of a cost above 0, whole microseconds "+
			"up to %d days, no request ID with a lease, and only sliding, fixed and calendar limits "+
			"(Fit alone: all but concurrency)", r.terms.Fit, r.terms.Lease, MaxWindow/day)
	}
	if r.books() && slices.ContainsFunc(r.Claims, func(c Claim) bool { return c.hasConcurrency() }) {
		m.add("a concurrency limit cannot be reserved: it is unknown when a holder leaves; want ModeTake")
	}
	if r.Bans != nil {
		r.Bans.check(m)
	}
	if r.Failure != nil {
		r.Failure.check(m)
	}
}

func (b *BanPolicy) check(m *mistakes) {
	if b.After == 0 && b.Within == 0 && len(b.Durations) == 0 && b.Forgive == 0 {
		return
	}
	if b.After < 1 || b.After > Resolution {
		m.add("bans: After is %d; want 1 to %d", b.After, Resolution)
	}
	if !inWindow(b.Within) {
		m.add("bans: Within is %v; want whole microseconds from %v to %d days", b.Within, MinWindow, MaxWindow/day)
	}
	if len(b.Durations) == 0 || len(b.Durations) > 16 {
		m.add("bans: Durations has %d entries; want 1 to 16", len(b.Durations))
	}
	for i, d := range b.Durations {
		if !inWindow(d) {
			m.add("bans: Durations[%d] is %v; want whole microseconds from %v to %d days",
				i, d, MinWindow, MaxWindow/day)
		}
	}
	if b.Forgive < 0 || b.Forgive > MaxWindow || b.Forgive%time.Microsecond != 0 {
		m.add("bans: Forgive is %v; want whole microseconds from 0 to %d days", b.Forgive, MaxWindow/day)
	}
}

func inWindow(d time.Duration) bool {
	return d >= MinWindow && d <= MaxWindow && d%time.Microsecond == 0
}

func (p *FailurePolicy) check(m *mistakes) {
	if p.Mode > FailError || p.Budget < 0 {
		m.add("failure: mode %d and budget %v; want FailLocal, FailAllow, FailDeny or FailError, and at least 0",
			p.Mode, p.Budget)
	}
}

// Validate reports everything that is wrong with the charge and its amendment: whether the charge
// can come from a decision, and whether it can be amended in this way. The error is an
// [*InvalidError].
func (a Amendment) Validate(c *Charge) error {
	var m mistakes
	c.check(&m)
	a.check(&m)
	return m.invalid()
}

func (a Amendment) check(m *mistakes) {
	for name, cost := range a.Costs {
		if uint64(cost) > uint64(MaxUnits) {
			m.add("Costs[%q] is %d; want 0 to %d", name, cost, MaxUnits)
		}
	}
	if a.Kind < AmendSettle || a.Kind > AmendRelease {
		m.add("the Kind of the amendment is %d; want AmendSettle, AmendExtend or AmendRelease", a.Kind)
	}
	if uint64(a.Cost) > uint64(MaxUnits) || uint64(a.MaxDebt) > uint64(MaxUnits) {
		m.add("amendment to the cost %d with a debt of at most %d; want 0 to %d", a.Cost, a.MaxDebt, MaxUnits)
	}
	if a.KnownOnly && a.Kind != AmendExtend {
		m.add("KnownOnly is set; want it with AmendExtend only")
	}
}

// checkNames records costs with a name that no limit of the charge has, because such costs would
// change nothing. A store does not check names, because it may see only a part of the charge.
func (a Amendment) checkNames(m *mistakes, c *Charge) {
	if len(a.Costs) == 0 {
		return
	}
	var names []string
	for _, claim := range c.Claims() {
		names = appendNames(names, claim.Limits)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Costs)) {
		if !slices.Contains(names, name) {
			m.add("Costs[%q]: no limit of the charge has that name%s", name, messages.Hint(name, names))
		}
	}
}

// Validate reports everything that is wrong with the command, in one [*InvalidError].
func (c *Command) Validate() error {
	var m mistakes
	claim := Claim{Subject: c.Subject, Scope: c.Scope, Limits: c.Limits}
	switch c.Kind {
	case CommandGiveBack:
		if c.Units <= 0 || c.Units > MaxUnits {
			m.add("Units is %d; want 1 to %d", c.Units, MaxUnits)
		}
		claim.check(&m)
		return m.invalid()
	case CommandReset:
		if len(c.Limits) == 0 {
			m.add("there are no limits to reset; want at least one")
		}
		claim.checkLimits(&m)
	case CommandBan:
		if !inWindow(c.For) {
			m.add("the ban is %v; want whole microseconds from %v to %d days", c.For, MinWindow, MaxWindow/day)
		}
	case CommandUnban:
	default:
		m.add("the Kind of the command is %d; want CommandReset, CommandBan, CommandUnban or CommandGiveBack", c.Kind)
	}
	claim.checkSubject(&m)
	return m.invalid()
}

// canLease reports whether units can be taken ahead of their use. Only a log can count units from
// now until after the end of their lease.
func (l *Limit) canLease() bool {
	return l.Algorithm == AlgorithmSliding || l.Algorithm == AlgorithmFixed || l.Algorithm == AlgorithmCalendar
}

// canHold reports whether the limit can hold units until they are settled. A meter cannot, because
// it gives units back over time.
func (l *Limit) canHold() bool { return l.canLease() && !l.hasMeter() }

// meterHint describes how to change a limit if its meter cannot count exactly.
const meterHint = "a rounder rate or window: capacity × window/gcd(maximum, window) of at most 2^53, " +
	"the window in µs, or in whole milliseconds or seconds"

// meterFits reports whether the limit's meter can count exactly, and whether a full meter is empty
// again within the longest time that a store keeps data.
func (l *Limit) meterFits() bool {
	unit, rate, tick := l.Meter()
	if unit == 0 {
		return false
	}
	ticks := uint64(l.Capacity()) * uint64(unit) / uint64(rate) // Capacity times unit is at most MaxUnits
	return ticks <= uint64((MaxBurst*MaxWindow).Microseconds()/tick)
}

// ticks are the possible lengths of a meter's tick, in microseconds.
var ticks = [...]int64{1, 1000, 1_000_000}

// Meter describes how the meter of a bucket or a burst counts in integers: one unit of cost weighs
// unit, a tick is tick microseconds long, and each tick gives back rate. The tick is the finest of
// 1 µs, 1 ms and 1 s that divides the window and keeps the weight of the capacity at or below
// [MaxUnits]. If Max is 0, rate is 0. If the limit has no meter, or one that cannot count exactly,
// all results are 0.
func (l *Limit) Meter() (unit, rate, tick int64) {
	window := l.Window.Microseconds()
	if !l.hasMeter() || window <= 0 || l.Max < 0 {
		return 0, 0, 0
	}
	if l.Max == 0 {
		return 1, 0, 1
	}
	for _, tick := range ticks {
		if window%tick != 0 {
			break
		}
		g := gcd(window/tick, l.Max)
		unit, rate = window/tick/g, l.Max/g
		if hi, lo := bits.Mul64(uint64(l.Capacity()), uint64(unit)); hi == 0 && lo <= uint64(MaxUnits) {
			return unit, rate, tick
		}
	}
	return 0, 0, 0
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

const maxName = 64

func validName(name string) bool {
	if len(name) > maxName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
