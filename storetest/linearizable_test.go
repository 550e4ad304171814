package storetest

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// TestSequential checks that the model accepts histories that have a sequential order, and rejects
// others.
func TestSequential(t *testing.T) {
	limits := []stint.Limit{stint.PerDay(10), stint.Per(400, stint.MaxWindow), stint.Per(100, stint.MaxWindow)}
	charge := func(id uint64) stint.Charge {
		return driver.NewCharge([]stint.Claim{{Cost: 6}}, driver.ChargeData{ID: id, At: int64(id)})
	}
	take := func(id uint64, used int64) (asked, reply) {
		return asked{verb: "take", cost: 6}, reply{id != 0, [3]int64{used, used, used}, charge(id)}
	}
	refund := func(ok bool) (asked, reply) { return asked{verb: "settle", charge: charge(1)}, reply{ok: ok} }
	giveBack := func() (asked, reply) { return asked{verb: "give back", cost: 2}, reply{} }
	reset := func() (asked, reply) { return asked{verb: "reset"}, reply{} }
	apart := func(id uint64, first, others int64) (asked, reply) {
		return asked{verb: "take", cost: 6}, reply{id != 0, [3]int64{first, others, others}, charge(id)}
	}
	op := func(from, to int64) func(in asked, out reply) porcupine.Operation {
		return func(in asked, out reply) porcupine.Operation {
			return porcupine.Operation{Call: from, Return: to, Input: in, Output: out}
		}
	}
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		want    bool
	}{
		{"one after another", []porcupine.Operation{op(1, 2)(take(1, 6)), op(3, 4)(take(0, 6))}, true},
		{"two at once, one too many", []porcupine.Operation{op(1, 4)(take(1, 6)), op(2, 3)(take(2, 12))}, false},
		{"two at once, neither saw the other",
			[]porcupine.Operation{op(1, 4)(take(1, 6)), op(2, 3)(take(2, 6))}, false},
		{"denied by what came later", []porcupine.Operation{op(1, 2)(take(0, 6)), op(3, 4)(take(1, 6))}, false},
		{"denied by what came at once", []porcupine.Operation{op(1, 3)(take(0, 6)), op(2, 4)(take(1, 6))}, true},
		{"refunded once", []porcupine.Operation{op(1, 2)(take(1, 6)), op(3, 6)(refund(true)), op(4, 5)(refund(false))},
			true},
		{"refunded twice", []porcupine.Operation{op(1, 2)(take(1, 6)), op(3, 6)(refund(true)), op(4, 5)(refund(true))},
			false},
		{"a refund unseen", []porcupine.Operation{op(1, 2)(take(1, 6)), op(3, 4)(refund(true)), op(5, 6)(take(0, 6))},
			false},
		{"reset", []porcupine.Operation{op(1, 2)(take(1, 6)), op(3, 4)(reset()), op(5, 6)(apart(2, 6, 12))}, true},
		{"reset, then refunded", []porcupine.Operation{
			// the refund does not change the second limit
			op(1, 2)(take(1, 6)), op(3, 4)(reset()), op(5, 6)(refund(true)), op(7, 8)(apart(2, 6, 6))}, false},
		// only the first limit gets units back
		{"given back", []porcupine.Operation{op(1, 2)(take(1, 6)), op(3, 4)(giveBack()), op(5, 6)(take(2, 10))}, false},
		{"given back too late", []porcupine.Operation{op(1, 2)(take(1, 6)), op(3, 4)(take(0, 6)), op(5, 6)(giveBack())},
			true},
		{"a give-back unseen", []porcupine.Operation{op(1, 2)(take(1, 6)), op(3, 4)(giveBack()), op(5, 6)(take(0, 6))},
			false},
	} {
		if got := porcupine.CheckOperations(sequential(limits), c.history); got != c.want {
			t.Errorf("%s: linearizable is %v, want %v", c.name, got, c.want)
		}
	}
}
