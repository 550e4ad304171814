package stint_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

func TestChargePart(t *testing.T) {
	claim := func(subject string) stint.Claim {
		return stint.Claim{Subject: subject, Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}
	}
	a, b, c := claim("a"), claim("b"), claim("c")
	named := stint.Claim{Subject: "n", Cost: 1, Limits: []stint.Limit{
		stint.PerHour(1), stint.PerDay(1), stint.PerHour(1).WithName("x"), stint.Concurrency(1, time.Hour)}}
	scoped := named
	scoped.Scope = "other"
	charge := func(d driver.ChargeData, claims ...stint.Claim) stint.Charge {
		d.ID = 7
		return driver.NewCharge(claims, d)
	}
	others := func(generations []uint32, at ...int64) *driver.OtherStates {
		return &driver.OtherStates{Generations: generations, At: at}
	}
	several := charge(driver.ChargeData{At: 10, Generation: 100, RequestID: "x", IDLife: time.Minute, Others: others([]uint32{101, 102})}, a, b, c)
	two := charge(driver.ChargeData{At: 10, Generation: 100, Others: others([]uint32{101, 102, 103, 104})}, named, a, scoped)
	split := charge(driver.ChargeData{At: 10, Others: others(make([]uint32, 2), 20, 30)}, a, b, c)
	local := charge(driver.ChargeData{At: 10, Fallback: true, Others: others([]uint32{5})}, a, b)
	broken := charge(driver.ChargeData{At: 10, Others: others(nil, 20)}, a, b, c)
	one := charge(driver.ChargeData{At: 10}, a)
	none := driver.NewCharge(nil, driver.ChargeData{ID: one.Data().ID})
	for _, test := range []struct {
		name   string
		whole  stint.Charge
		claims []int
		want   stint.Charge
	}{
		{"the only claim", one, []int{0}, one},
		{"all", several, []int{0, 1, 2}, several},
		{"in any order, each once", several, []int{2, 0, 2, 1, 0}, several},
		{"the first", several, []int{0}, charge(driver.ChargeData{At: 10, Generation: 100, RequestID: "x", IDLife: time.Minute}, a)},
		{"another", several, []int{1}, charge(driver.ChargeData{At: 10, Generation: 101}, b)},
		{"several others", several, []int{2, 1}, charge(driver.ChargeData{At: 10, Generation: 101, Others: others([]uint32{102})}, b, c)},
		{"generations of names", two, []int{0, 2},
			charge(driver.ChargeData{At: 10, Generation: 100, Others: others([]uint32{101, 103, 104})}, named, scoped)},
		{"the generations of one", two, []int{2}, charge(driver.ChargeData{At: 10, Generation: 103, Others: others([]uint32{104})}, scoped)},
		{"instants", split, []int{1, 2}, charge(driver.ChargeData{At: 20, Others: others([]uint32{0}, 30)}, b, c)},
		{"instants beside the first", split, []int{0, 2}, charge(driver.ChargeData{At: 10, Others: others([]uint32{0}, 30)}, a, c)},
		{"the instant of one", split, []int{2}, charge(driver.ChargeData{At: 30}, c)},
		{"origin", local, []int{1}, charge(driver.ChargeData{At: 10, Generation: 5, Fallback: true}, b)},
		{"none", several, nil, stint.Charge{}},
		{"too far", several, []int{0, 3}, none},
		{"below the first", several, []int{-1, 0}, none},
		{"no such claim", one, []int{1}, none},
		{"instants are missing", broken, []int{2}, none},
		{"of nothing", stint.Charge{}, []int{1}, stint.Charge{}},
	} {
		got := test.whole.Part(test.claims...)
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
		if got.Data().ID != 0 {
			err := (stint.Amendment{Kind: stint.AmendSettle}).Validate(&got)
			if wrong := reflect.DeepEqual(got, none); (err != nil) != wrong {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
	// A charge has as many generations as its claims have states.
	hour, x := stint.PerHour(1), stint.PerHour(1).WithName("x")
	for _, test := range []struct {
		generations []uint32
		limits      []stint.Limit
		valid       bool
	}{
		{nil, []stint.Limit{hour}, true},
		{nil, []stint.Limit{hour, stint.PerDay(1)}, true}, // one state
		{nil, []stint.Limit{hour, stint.Concurrency(1, time.Hour).WithName("x")}, true},
		{nil, []stint.Limit{hour, x}, false},
		{[]uint32{1}, []stint.Limit{hour, x}, true},
		{[]uint32{1, 2}, []stint.Limit{hour, x}, false},
	} {
		got := charge(driver.ChargeData{Others: others(test.generations)}, stint.Claim{Subject: "a", Limits: test.limits, Cost: 1})
		if err := (stint.Amendment{Kind: stint.AmendSettle}).Validate(&got); (err == nil) != test.valid {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
