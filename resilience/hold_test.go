package resilience

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/testkit"
)

const holdLife = time.Minute

// held asks for units with a hold.
func held(r stint.Request) stint.Request {
	r.Hold = holdLife
	return r
}

func report(total int64) stint.Amendment {
	return stint.Amendment{Kind: stint.AmendExtend, Cost: total}
}

// wantHeld checks how much of a limit the store holds.
func wantHeld(t testing.TB, store *fake, subject string, l stint.Limit, want int64) {
	t.Helper()
	seen, err := driver.Inspector(store.Store).Inspect(t.Context(), stint.Claim{Subject: subject,
		Limits: []stint.Limit{l}})
	if err != nil {
		t.Fatal(err)
	}
	if got := seen.Windows[0].Held; got != want {
		t.Errorf("%s of %s: %d held, want %d", l, subject, got, want)
	}
}

// Quantities of one claim, and claims of one subject, are settled apart, and each once, whether the
// store is there or not.
func TestSettledApart(t *testing.T) {
	in, out := stint.PerDay(1000).WithName("in"), stint.PerDay(1000).WithName("out")
	quantities := held(ask("a", 100, in, out))
	claims := held(and(ask("a", 100, in), ask("a", 100, out)))
	for name, fail := range failures {
		for _, test := range []struct {
			name  string
			first func(store *fake) // before the request, or else before it is settled
			then  func(store *fake)
		}{
			{"granted by the store", func(*fake) {}, fail},
			{"granted without it", fail, func(*fake) {}},
		} {
			for kind, r := range map[string]stint.Request{"quantities": quantities, "claims": claims} {
				t.Run(name+", "+test.name+", "+kind, func(t *testing.T) {
					over(t, alone, func(t *testing.T, store *fake, s *Stack) {
						mustDecide(t, s, ask("a", 10, in, out))
						test.first(store)
						d := mustDecide(t, s, r)
						test.then(store)
						for i, costs := range []stint.Costs{{"in": 30}, {"out": 150}} {
							c, a := d.Charge, stint.Amendment{Costs: costs}
							if kind == "claims" {
								c = c.Part(i)
							}
							for n := range 3 {
								if done := mustAmend(t, s, c, a); done.Changed != (n == 0) {
									t.Errorf("settlement %d of %v: %+v", n+1, a.Costs, done)
								}
							}
						}
						used := ask("a", 1, in, out)
						used.Mode = stint.ModePeek
						now := mustDecide(t, s, used)
						if u := now.Usages(); now.Degraded && (u[0].Used < 40 || u[0].Used > 110 || u[1].Used != 160) {
							t.Errorf("without the store: %+v used, want 40 to 110, and 160", u)
						}
						time.Sleep(time.Second)
						store.up()
						time.Sleep(10 * time.Second)
						wantUsed(t, store, "a", in, 40)
						wantUsed(t, store, "a", out, 160)
						wantHeld(t, store, "a", in, 0)
					})
				})
			}
		}
	}
}

// A settlement that the store has applied is not promised again when the store is away.
func TestSettledBeforeAnOutage(t *testing.T) {
	for name, r := range map[string]stint.Request{"held": held(ask("a", 10, stint.PerDay(100))),
		"charged": ask("a", 10, stint.PerDay(100))} {
		for failure, fail := range failures {
			t.Run(name+", "+failure, func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					d := mustDecide(t, s, r)
					for n := range 3 {
						if done := mustAmend(t, s, d.Charge, stint.Amendment{Cost: 30}); done.Changed != (n == 0) {
							t.Errorf("settlement %d: %+v", n+1, done)
						}
						fail(store)
					}
				})
			})
		}
	}
}

// A hold and the place beside it are settled once each, whether the store is there or not. A
// settlement to more than 0 keeps the place.
func TestPlaceSettledAgain(t *testing.T) {
	place, stock := stint.AtOnce(1, 10*time.Minute), stint.PerDay(100)
	for failure, fail := range failures {
		for name, granted := range map[string]func(*fake){"granted by the store": func(*fake) {}, "without it": fail} {
			t.Run(failure+", "+name, func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					granted(store)
					both := mustDecide(t, s, held(ask("a", 10, stock, place)))
					only := mustDecide(t, s, held(ask("b", 10, place)))
					fail(store)
					for n := range 3 {
						for i, c := range []stint.Charge{both.Charge, only.Charge} {
							done := mustAmend(t, s, c, stint.Amendment{Cost: 30})
							if done.Changed != (n == 0 && i == 0) {
								t.Errorf("%d: settlement %d: %+v", i+1, n+1, done)
							}
						}
					}
					for n := range 3 {
						for i, c := range []stint.Charge{both.Charge, only.Charge} {
							if done := mustAmend(t, s, c, stint.Amendment{}); done.Changed != (n == 0) {
								t.Errorf("%d: settlement %d to 0: %+v", i+1, n+1, done)
							}
						}
					}
					time.Sleep(time.Second)
					store.up()
					time.Sleep(10 * time.Second)
					wantUsed(t, store, "a", stock, 30)
					wantUsed(t, store, "a", place, 0)
					wantUsed(t, store, "b", place, 0)
				})
			})
		}
	}
}

// Requests and costs of one subject are settled together, without the store too.
func TestSettleWithoutTheStore(t *testing.T) {
	requests, tokens := stint.PerDay(100), stint.PerDay(1000).WithName("tokens")
	for name, fail := range failures {
		for i, settle := range []func(stint.Charge, []int, stint.Amendment, func(stint.Charge, stint.Amendment) (
			stint.Amended, error)) (stint.Amended, error){contract.Settle, contract.SettleOnce} {
			t.Run(fmt.Sprint(name, ", ", i+1), func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					var charges []stint.Charge
					for range 2 { // with the store, then without
						r := held(and(oneUnit("a", requests), ask("a", 100, tokens)))
						charges = append(charges, mustDecide(t, s, r).Charge)
						fail(store)
					}
					amend := func(c stint.Charge, a stint.Amendment) (stint.Amended, error) {
						return s.Amend(t.Context(), c, a)
					}
					for _, c := range charges {
						done, err := settle(c, []int{1}, stint.Amendment{Cost: 30}, amend)
						if err != nil || done != (stint.Amended{Changed: true, Charged: 30}) {
							t.Errorf("%+v, %v", done, err)
						}
					}
					time.Sleep(time.Second)
					store.up()
					time.Sleep(3 * holdLife)
					wantUsed(t, store, "a", requests, 2)
					wantUsed(t, store, "a", tokens, 60)
				})
			})
		}
	}
}

// What heartbeats report of a hold that was granted without the store is charged when that is back,
// also if no heartbeat comes afterwards.
func TestTotalsWithoutTheStore(t *testing.T) {
	limit := stint.PerDay(1000)
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				fail(store)
				less, more := mustDecide(t, s, held(ask("a", 100, limit))), mustDecide(t, s, held(ask("a", 100, limit)))
				for _, total := range []int64{10, 40, 30} {
					time.Sleep(10 * time.Second)
					for _, d := range []stint.Decision{less, more} {
						if done := mustAmend(t, s, d.Charge, report(total)); !done.Changed {
							t.Fatal("the hold is lost")
						}
					}
				}
				mustAmend(t, s, more.Charge, report(170))
				store.up()
				time.Sleep(5 * time.Second)
				wantUsed(t, store, "a", limit, 100+170)
				time.Sleep(2 * holdLife)
				wantUsed(t, store, "a", limit, 40+170)
			})
		})
	}
}

// A hold that was granted without the store lasts for as long as heartbeats come, however long the
// outage is, and is then settled.
func TestLongHoldWithoutTheStore(t *testing.T) {
	testkit.SkipUnderRace(t)
	for name, limit := range map[string]stint.Limit{"stock": stint.PerHour(1000), "rate": stint.PerSecond(1000)} {
		for failure, fail := range failures {
			t.Run(name+", "+failure, func(t *testing.T) {
				over(t, alone, func(t *testing.T, store *fake, s *Stack) {
					fail(store)
					d := mustDecide(t, s, held(ask("a", 100, limit)))
					beats := func(n int) {
						for range n {
							time.Sleep(holdLife / 2)
							if done := mustAmend(t, s, d.Charge, report(0)); !done.Changed {
								t.Fatal("the hold is lost")
							}
						}
					}
					beats(20)
					store.up()
					beats(20)
					done := mustAmend(t, s, d.Charge, stint.Amendment{Cost: 250})
					if done != (stint.Amended{Changed: true, Charged: 250}) {
						t.Errorf("%+v", done)
					}
					want := int64(250)
					if name == "rate" {
						want = 150 // what it was charged at first has left its window
					}
					wantUsed(t, store, "a", limit, want)
				})
			})
		}
	}
}

// Heartbeats keep a place of a request with a hold, also where nothing else was charged.
func TestPlaceWithAHold(t *testing.T) {
	place := stint.AtOnce(1, 10*time.Second)
	over(t, alone, func(t *testing.T, store *fake, s *Stack) {
		store.down()
		d := mustDecide(t, s, held(oneUnit("a", place)))
		for range 5 {
			time.Sleep(5 * time.Second)
			if done := mustAmend(t, s, d.Charge, stint.Amendment{Kind: stint.AmendExtend}); !done.Changed {
				t.Fatal("the place is lost")
			}
			wantAdmitted(t, s, 1, oneUnit("a", place), 0)
		}
		store.up()
		time.Sleep(5 * time.Second)
		mustAmend(t, s, d.Charge, stint.Amendment{Kind: stint.AmendExtend})
		wantUsed(t, store, "a", place, 1)
	})
}

// A request that streams for longer than its ID lives is not admitted a second time under that,
// with the store or without.
func TestIDOfALongHold(t *testing.T) {
	r := held(ask("a", 100, stint.PerDay(1000)))
	r.ID, r.IDLife = "x", time.Second
	for name, without := range map[string]bool{"with the store": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			over(t, alone, func(t *testing.T, store *fake, s *Stack) {
				if without {
					store.down()
				}
				d := mustDecide(t, s, r)
				for range 6 {
					time.Sleep(holdLife / 2)
					mustAmend(t, s, d.Charge, report(0))
				}
				again := mustDecide(t, s, r)
				if !again.Repeat || again.Charge.Data().ID != d.Charge.Data().ID {
					t.Errorf("%+v, want the charge of the first", again)
				}
				other := r
				other.Hold = 2 * holdLife
				if d := mustDecide(t, s, other); !d.Repeat || !d.Charge.IsZero() {
					t.Errorf("with another hold: %+v, want no charge", d)
				}
			})
		})
	}
}
