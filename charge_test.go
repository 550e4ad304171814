package stint_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

func TestChargePart(t *testing.T) {
	claim := func(subject string) stint.Claim {
		return stint.Claim{Subject: subject, Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}
	}
	a, b, c := claim("a"), claim("b"), claim("c")
	several := driver.NewCharge(
		[]stint.Claim{a, b, c},
		driver.ChargeData{ID: 7, At: 10, RequestID: "x", IDLife: time.Minute},
	)
	contract.SetGeneration(&several, 0, 100)
	contract.SetGeneration(&several, 1, 101)
	contract.SetGeneration(&several, 2, 102)
	named := stint.Claim{Subject: "n",
		Limits: []stint.Limit{stint.PerHour(1), stint.PerDay(1), stint.PerHour(1).WithName("x"),
			stint.AtOnce(1, time.Hour)}, Cost: 1}
	scoped := named
	scoped.Scope = "other"
	two := driver.NewCharge([]stint.Claim{named, a, scoped}, driver.ChargeData{ID: 7, At: 10})
	for i := range 5 {
		contract.SetGeneration(&two, i, uint32(100+i))
	}
	split := driver.NewCharge(
		[]stint.Claim{a, b, c},
		driver.ChargeData{
			ID:     7,
			At:     10,
			Others: &driver.OtherStates{Generations: make([]uint32, 2), At: []int64{20, 30}},
		},
	)
	local := driver.NewCharge(
		[]stint.Claim{a, b},
		driver.ChargeData{ID: 7, At: 10, Fallback: true, Others: &driver.OtherStates{Generations: []uint32{5}}},
	)
	broken := driver.NewCharge(
		[]stint.Claim{a, b, c},
		driver.ChargeData{ID: 7, At: 10, Others: &driver.OtherStates{At: []int64{20}}},
	)
	one := driver.NewCharge([]stint.Claim{a}, driver.ChargeData{ID: 7, At: 10})
	tests := []struct {
		name   string
		whole  stint.Charge
		claims []int
		want   stint.Charge
	}{
		{"the only claim", one, []int{0}, one},
		{"all", several, []int{0, 1, 2}, several},
		{"in any order, each once", several, []int{2, 0, 2, 1, 0}, several},
		{"the first", several, []int{0},
			driver.NewCharge(
				[]stint.Claim{a},
				driver.ChargeData{ID: 7, At: 10, Generation: 100, RequestID: "x", IDLife: time.Minute},
			)},
		{
			"another",
			several,
			[]int{1},
			driver.NewCharge([]stint.Claim{b}, driver.ChargeData{ID: 7, At: 10, Generation: 101}),
		},
		{
			"several others",
			several,
			[]int{2, 1},
			driver.NewCharge(
				[]stint.Claim{b, c},
				driver.ChargeData{
					ID:         7,
					At:         10,
					Generation: 101,
					Others:     &driver.OtherStates{Generations: []uint32{102}},
				},
			),
		},
		{
			"generations of names",
			two,
			[]int{0, 2},
			driver.NewCharge(
				[]stint.Claim{named, scoped},
				driver.ChargeData{
					ID:         7,
					At:         10,
					Generation: 100,
					Others:     &driver.OtherStates{Generations: []uint32{101, 103, 104}},
				},
			),
		},
		{"the generations of one", two, []int{2},
			driver.NewCharge(
				[]stint.Claim{scoped},
				driver.ChargeData{
					ID:         7,
					At:         10,
					Generation: 103,
					Others:     &driver.OtherStates{Generations: []uint32{104}},
				},
			)},
		{
			"instants",
			split,
			[]int{1, 2},
			driver.NewCharge(
				[]stint.Claim{b, c},
				driver.ChargeData{
					ID:     7,
					At:     20,
					Others: &driver.OtherStates{Generations: []uint32{0}, At: []int64{30}},
				},
			),
		},
		{
			"instants beside the first",
			split,
			[]int{0, 2},
			driver.NewCharge(
				[]stint.Claim{a, c},
				driver.ChargeData{
					ID:     7,
					At:     10,
					Others: &driver.OtherStates{Generations: []uint32{0}, At: []int64{30}},
				},
			),
		},
		{"the instant of one", split, []int{2}, driver.NewCharge([]stint.Claim{c}, driver.ChargeData{ID: 7, At: 30})},
		{
			"origin",
			local,
			[]int{1},
			driver.NewCharge([]stint.Claim{b}, driver.ChargeData{ID: 7, At: 10, Generation: 5, Fallback: true}),
		},
		{"none", several, nil, stint.Charge{}},
		{"too far", several, []int{0, 3}, stint.Charge{}},
		{"below the first", several, []int{-1, 0}, stint.Charge{}},
		{"no such claim", one, []int{1}, stint.Charge{}},
		{"instants are missing", broken, []int{2}, stint.Charge{}},
		{"of nothing", stint.Charge{}, []int{1}, stint.Charge{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.whole.Part(test.claims...)
			if !reflect.DeepEqual(got, test.want) {
				t.Fatalf("got %+v, want %+v", got, test.want)
			}
			if got.Data().ID != 0 {
				if err := (stint.Amendment{}).Validate(&got); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A charge without the generations that its states need could be that of no decision.
func TestChargeValidate(t *testing.T) {
	hour, named := stint.PerHour(1), stint.PerHour(1).WithName("n")
	charge := func(generations []uint32, limits ...stint.Limit) stint.Charge {
		return driver.NewCharge(
			[]stint.Claim{{Subject: "a", Limits: limits, Cost: 1}},
			driver.ChargeData{ID: 1, Others: &driver.OtherStates{Generations: generations}},
		)
	}
	for _, test := range []struct {
		charge stint.Charge
		valid  bool
	}{
		{charge(nil, hour), true},
		{charge(nil, hour, stint.PerDay(1)), true}, // one state
		{charge(nil, hour, stint.AtOnce(1, time.Hour).WithName("n")), true},
		{charge(nil, hour, named), false},
		{charge([]uint32{1}, hour, named), true},
		{charge([]uint32{1, 2}, hour, named), false},
	} {
		if err := (stint.Amendment{}).Validate(&test.charge); (err == nil) != test.valid {
			t.Errorf(
				"%v with generations %v: %v",
				test.charge.Claims()[0].Limits,
				test.charge.Data().Others.Generations,
				err,
			)
		}
	}
}

// What is done to a part leaves the whole as it was.
func TestChargePartIsACopy(t *testing.T) {
	claims := []stint.Claim{{Subject: "b"}, {Subject: "c"}}
	whole := driver.NewCharge(append([]stint.Claim{{Subject: "a"}}, claims...), driver.ChargeData{ID: 1})
	part := whole.Part(0, 1, 2)
	part.Claims()[0].Subject, part.Claims()[1].Subject, part.Data().Leased = "x", "y", 1
	if whole.Claims()[0].Subject != "a" || claims[0].Subject != "b" || whole.Data().Leased != 0 {
		t.Errorf("the whole is now %+v", whole)
	}
	numbers := []int{2, 1}
	whole.Part(numbers...)
	if numbers[0] != 2 {
		t.Error("the caller's numbers were sorted")
	}
}
