package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
	"github.com/stint-limiter/stint"
)

// ledger is the whole state of one subject in the sequential specification of Linearizable. Nothing
// expires, and only the first limit is ever reset or gets units back. But the store keeps the first
// two limits in one state, because they have the same name, so a reset changes the generation of
// both. A ledger is immutable.
type ledger struct {
	first   []unitsAt // usage of the first limit, oldest first
	second  int64     // usage of the second limit
	third   int64
	current []uint64 // ids of the charges since the last reset
	settled []uint64

	holds []openHold
	held  int64 // units of open and settled holds, which count under every limit
}

// openHold is a hold that is not settled yet. units is its estimate, or the reported cost if that
// is larger.
type openHold struct {
	id              uint64
	units, reported int64
}

type unitsAt struct{ at, n int64 }

func (g ledger) used() [3]int64 {
	u := [3]int64{g.held, g.second + g.held, g.third + g.held}
	for _, e := range g.first {
		u[0] += e.n
	}
	return u
}

// add returns a copy of list with n more units at the given instant. It omits the entry if no units
// are left.
func add(list []unitsAt, at, n int64) []unitsAt {
	list = slices.Clone(list)
	for i := range list {
		if list[i].at == at {
			if list[i].n = max(0, list[i].n+n); list[i].n == 0 {
				return slices.Delete(list, i, i+1)
			}
			return list
		}
	}
	return append(list, unitsAt{at, n})
}

func sequential(limits []stint.Limit) porcupine.Model {
	return porcupine.Model{
		Partition: bySubject,
		Init:      func() any { return ledger{} },
		Step: func(state, in, out any) (bool, any) {
			return apply(limits, state.(ledger), in.(asked), out.(reply))
		},
		Equal:             func(a, b any) bool { return sameLedger(a.(ledger), b.(ledger)) },
		DescribeOperation: describeCall,
	}
}

// apply reports whether the given reply to the given call is correct in state g, and returns the
// state after the call.
func apply(limits []stint.Limit, g ledger, in asked, out reply) (bool, ledger) {
	switch in.verb {
	case "reset":
		g.first, g.current = nil, nil
		return true, g
	case "give back":
		for units := in.cost; units > 0 && len(g.first) > 0; {
			oldest := g.first[0]
			g.first = add(g.first, oldest.at, -units)
			units -= min(units, oldest.n)
		}
		return true, g
	case "settle":
		c := in.charge
		if slices.Contains(g.settled, c.Data().ID) {
			return !out.ok, g
		}
		more := in.cost - c.Claims()[0].Cost
		if slices.Contains(g.current, c.Data().ID) {
			if slices.ContainsFunc(g.first, func(e unitsAt) bool { return e.at == c.Data().At }) {
				g.first = add(g.first, c.Data().At, more)
			}
			g.second += more
		}
		g.third += more
		g.settled = append(slices.Clone(g.settled), c.Data().ID)
		return out.ok, g
	case "report", "settle hold":
		i := slices.IndexFunc(g.holds, func(h openHold) bool { return h.id == in.charge.Data().ID })
		if i < 0 {
			return !out.ok, g
		}
		h := g.holds[i]
		h.reported = max(h.reported, in.cost)
		g.held -= g.holds[i].units
		if g.holds = slices.Clone(g.holds); in.verb == "report" {
			h.units = max(h.units, h.reported)
			g.held, g.holds[i] = g.held+h.units, h
		} else {
			g.held, g.holds = g.held+h.reported, slices.Delete(g.holds, i, i+1)
		}
		return out.ok, g
	default:
		fits := true
		for i, u := range g.used() {
			fits = fits && u+in.cost <= limits[i].Capacity()
		}
		if fits && in.verb == "take" && in.cost > 0 {
			g.first = add(g.first, out.charge.Data().At, in.cost)
			g.second += in.cost
			g.third += in.cost
			g.current = append(slices.Clone(g.current), out.charge.Data().ID)
		}
		if fits && in.verb == "hold" {
			g.held += in.cost
			g.holds = append(slices.Clone(g.holds), openHold{out.charge.Data().ID, in.cost, 0})
		}
		return out.ok == fits && out.used == g.used(), g
	}
}

func sameLedger(a, b ledger) bool {
	byID := func(holds []openHold) []openHold {
		return slices.SortedFunc(slices.Values(holds), func(a, b openHold) int { return cmp.Compare(a.id, b.id) })
	}
	return a.held == b.held && slices.Equal(byID(a.holds), byID(b.holds)) &&
		a.second == b.second && a.third == b.third && slices.Equal(a.first, b.first) &&
		slices.Equal(sorted(a.current), sorted(b.current)) && slices.Equal(sorted(a.settled), sorted(b.settled))
}

func sorted(ids []uint64) []uint64 { return slices.Sorted(slices.Values(ids)) }

func bySubject(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, o := range history {
		subject := o.Input.(asked).subject
		parts[subject] = append(parts[subject], o)
	}
	return slices.Collect(maps.Values(parts))
}

func describeCall(in, out any) string {
	i, o := in.(asked), out.(reply)
	return fmt.Sprintf("%s %d of %s (charge %x of %d) → %v, used %v, charge %x at %d", i.verb, i.cost, i.subject,
		i.charge.Data().ID, i.charge.Claims()[0].Cost, o.ok, o.used, o.charge.Data().ID, o.charge.Data().At)
}
