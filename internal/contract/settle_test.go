package contract

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// What counts costs is settled to the true cost; what counts requests and is held to one.
func TestSettle(t *testing.T) {
	requests := stint.Claim{Subject: "a", Cost: 1, Limits: []stint.Limit{stint.PerDay(9)}}
	costs := stint.Claim{Subject: "a", Cost: 5, Limits: []stint.Limit{stint.PerDay(9).WithName("cost")}}
	place := stint.Claim{Subject: "a", Cost: 1, Limits: []stint.Limit{stint.Concurrency(3, time.Minute)}}
	settled := stint.Amendment{Kind: stint.AmendSettle, Cost: 7}
	for _, test := range []struct {
		name    string
		claims  []stint.Claim
		costs   []int
		hold    bool
		want    []int64 // the total of each call
		charged int64
	}{
		{"without a hold", []stint.Claim{requests, costs}, []int{1}, false, []int64{7}, 7},
		{"a hold", []stint.Claim{requests, costs}, []int{1}, true, []int64{1, 7}, 7},
		{"only costs", []stint.Claim{costs}, []int{0}, true, []int64{7}, 7},
		{"only requests", []stint.Claim{requests}, nil, true, []int64{1}, 1},
		{"a place", []stint.Claim{place, costs}, []int{1}, true, []int64{7}, 7},
		{"nothing that counts costs", []stint.Claim{requests}, nil, false, nil, 0},
		{"names in common", []stint.Claim{requests, {Subject: "b", Cost: 5, Limits: requests.Limits}},
			[]int{1}, true, []int64{1, 7}, 7},
	} {
		data := driver.ChargeData{ID: 1, At: 1, Generation: 1}
		if test.hold {
			data.Hold = time.Minute
		}
		var got []int64
		done, err := Settle(driver.NewCharge(test.claims, data), test.costs, settled,
			func(_ stint.Charge, a stint.Amendment) (stint.Amended, error) {
				got = append(got, Total(&a))
				return stint.Amended{Changed: true, Charged: Total(&a)}, nil
			})
		if err != nil || !slices.Equal(got, test.want) || done.Charged != test.charged {
			t.Errorf("%s: calls %v, charged %d, %v; want %v, %d", test.name, got, done.Charged, err, test.want,
				test.charged)
		}
	}
}

// One call settles both if their names tell them apart, and reports what is charged of the costs.
func TestSettleOnce(t *testing.T) {
	requests := stint.Claim{Subject: "a", Cost: 1, Limits: []stint.Limit{stint.PerDay(9), stint.PerHour(5)}}
	place := stint.Claim{Subject: "a", Cost: 1, Limits: []stint.Limit{stint.Concurrency(3, time.Minute)}}
	costs := stint.Claim{Subject: "a", Cost: 5, Limits: []stint.Limit{stint.PerDay(9).WithName("in"),
		stint.PerDay(9).WithName("out")}}
	other := stint.Claim{Subject: "b", Cost: 5, Limits: []stint.Limit{stint.PerDay(9)}}
	settled := stint.Amendment{Kind: stint.AmendSettle, Cost: 7}
	for _, test := range []struct {
		name    string
		claims  []stint.Claim
		costs   []int
		hold    time.Duration
		a       stint.Amendment
		lacks   int64 // what a limit does not charge
		want    []stint.Costs
		charged int64
	}{
		{"one cost", []stint.Claim{requests, place, costs}, []int{2}, time.Minute, settled, 0,
			[]stint.Costs{{"": 1, "in": 7, "out": 7}}, 7},
		{"a debt that is too large", []stint.Claim{requests, costs}, []int{1}, time.Minute, settled, 3,
			[]stint.Costs{{"": 1, "in": 7, "out": 7}}, 4},
		{"costs by name", []stint.Claim{costs, requests}, []int{0}, time.Minute,
			stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"in": 2, "out": 3}}, 0,
			[]stint.Costs{{"": 1, "in": 2, "out": 3}}, 5},
		{"names in common", []stint.Claim{requests, other}, []int{1}, time.Minute, settled, 0,
			[]stint.Costs{nil, nil}, 7},
		{"without a hold", []stint.Claim{requests, costs}, []int{1}, 0, settled, 0,
			[]stint.Costs{nil}, 7},
		{"no requests", []stint.Claim{place, costs}, []int{1}, time.Minute, settled, 0,
			[]stint.Costs{nil}, 7},
	} {
		var got []stint.Costs
		c := driver.NewCharge(test.claims, driver.ChargeData{ID: 1, At: 1, Generation: 1, Hold: test.hold})
		done, err := SettleOnce(c, test.costs, test.a, func(_ stint.Charge, a stint.Amendment) (stint.Amended, error) {
			got = append(got, a.Costs)
			return stint.Amended{Changed: true, Charged: Total(&a) - test.lacks}, nil
		})
		want := stint.Amended{Changed: true, Charged: test.charged}
		if err != nil || !reflect.DeepEqual(got, test.want) || done != want {
			t.Errorf("%s: calls %v, %+v, %v; want %v, %d", test.name, got, done, err, test.want, test.charged)
		}
	}
}
