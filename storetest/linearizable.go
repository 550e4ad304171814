package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stint-limiter/stint"
)

// Linearizable checks that concurrent decisions have a sequential order: the answers to concurrent
// calls must be possible answers to the same calls made one after another. The store may run on the
// real clock; the limits' windows are so long that no units come back. Each subject is checked
// separately, because the contract orders only the decisions on one subject.
func Linearizable(t *testing.T, store stint.Store) {
	const callers, calls = 8, 60
	limits := []stint.Limit{
		stint.Per(40, 24*time.Hour),
		stint.Per(400, stint.MaxWindow), // in slices of three days; the test is within one slice
		stint.Per(25, stint.MaxWindow).BurstTimes(2).WithName("burst"),
	}
	// Each subject gets few calls, because the search is exponential in the worst case.
	subjects := func(n int) (names []string) {
		for range n {
			names = append(names, fmt.Sprintf("linearizable:%016x", rand.Uint64()))
		}
		return names
	}
	names := subjects(callers * calls / 60)
	// Requests for these subjects are holds. Later calls report their usage and settle them.
	holding := subjects(callers * calls / 120)
	r := &recorder{store: store, limits: limits, start: time.Now()}
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			var mine, held []stint.Charge
			for range calls {
				if rand.IntN(3) == 0 {
					held = r.hold(t, caller, holding[rand.IntN(len(holding))], held)
					continue
				}
				subject := names[rand.IntN(len(names))]
				switch n := rand.IntN(20); {
				case n < 12:
					if c := r.take(t, caller, subject, "take", rand.Int64N(12)); c.Data().ID != 0 {
						mine = append(mine, c)
					}
				case n < 15:
					r.take(t, caller, subject, "peek", 1+rand.Int64N(12))
				case n < 18 && len(mine) > 0:
					r.amend(t, caller, "settle", mine[rand.IntN(len(mine))], settleTo(rand.Int64N(12)))
				case n < 19:
					r.command(t, caller, "give back", stint.Command{Kind: stint.CommandGiveBack,
						Subject: subject, Units: 1 + rand.Int64N(12)})
				default:
					r.command(t, caller, "reset", stint.Command{Kind: stint.CommandReset, Subject: subject})
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	result := porcupine.CheckOperationsTimeout(sequential(limits), r.history, time.Minute)
	switch result {
	case porcupine.Illegal:
		for _, o := range r.history {
			t.Logf("%d to %d µs: caller %d: %s", o.Call/1000, o.Return/1000, o.ClientId,
				describeCall(o.Input, o.Output))
		}
		t.Errorf("no sequential order explains what %d callers saw", callers)
	case porcupine.Unknown:
		t.Errorf("undecided after a minute: make the history shorter")
	}
}

// recorder calls a store and records the calls, the replies and their times.
type recorder struct {
	store  stint.Store
	limits []stint.Limit
	start  time.Time

	mu      sync.Mutex
	history []porcupine.Operation
}

// asked is a call to the store, and reply is its answer.
type asked struct {
	subject string
	verb    string // take, peek, settle, give back, reset, hold, report or settle hold
	cost    int64
	charge  stint.Charge // the charge to settle or report on
}

type reply struct {
	ok     bool // the request was allowed, or the amendment applied
	used   [3]int64
	charge stint.Charge
}

func (r *recorder) do(t *testing.T, caller int, in asked, call func(context.Context, *reply) error) {
	var out reply
	began := time.Since(r.start)
	err := call(t.Context(), &out)
	ended := time.Since(r.start)
	if err != nil {
		t.Errorf("%+v: %v", in, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{
		ClientId: caller, Input: in, Call: began.Nanoseconds(), Output: out, Return: ended.Nanoseconds(),
	})
}

// take makes a request: a take, a peek or a hold. It returns the charge.
func (r *recorder) take(t *testing.T, caller int, subject, verb string, cost int64) (c stint.Charge) {
	request := stint.Request{Claims: []stint.Claim{{Subject: subject, Limits: r.limits, Cost: cost}}}
	switch verb {
	case "peek":
		request.Mode = stint.ModePeek
	case "hold":
		request.Hold = time.Hour
	}
	r.do(t, caller, asked{subject: subject, verb: verb, cost: cost}, func(ctx context.Context, out *reply) error {
		d, err := r.store.Take(ctx, request)
		out.ok, out.charge, c = d.Allowed, d.Charge, d.Charge
		for i, s := range d.States() {
			out.used[i] = s.Used
		}
		return err
	})
	return c
}

// hold makes a request with a hold, or picks one of the charges in held and reports its usage or
// settles it, possibly for a second time. It returns held with the new charge, if there is one.
func (r *recorder) hold(t *testing.T, caller int, subject string, held []stint.Charge) []stint.Charge {
	n := rand.IntN(5)
	if n < 2 || len(held) == 0 {
		if c := r.take(t, caller, subject, "hold", 1+rand.Int64N(12)); c.Data().ID != 0 {
			held = append(held, c)
		}
		return held
	}
	verb, a := "report", stint.Amendment{Kind: stint.AmendExtend, Cost: rand.Int64N(16), MaxDebt: stint.MaxUnits}
	if n > 2 {
		verb, a.Kind = "settle hold", stint.AmendSettle
	}
	r.amend(t, caller, verb, held[rand.IntN(len(held))], a)
	return held
}

func (r *recorder) amend(t *testing.T, caller int, verb string, c stint.Charge, a stint.Amendment) {
	in := asked{subject: c.Claims()[0].Subject, verb: verb, cost: a.Cost, charge: c}
	r.do(t, caller, in, func(ctx context.Context, out *reply) error {
		done, err := r.store.Amend(ctx, c, a)
		out.ok = done.Changed
		return err
	})
}

// command sends a command for the first limit only, so that the usages of the limits differ.
func (r *recorder) command(t *testing.T, caller int, verb string, c stint.Command) {
	c.Limits = r.limits[:1]
	in := asked{subject: c.Subject, verb: verb, cost: c.Units}
	r.do(t, caller, in, func(ctx context.Context, _ *reply) error { return r.store.Command(ctx, c) })
}
