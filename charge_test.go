package stint_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
)

func TestChargePart(t *testing.T) {
	claim := func(subject string) stint.Claim {
		return stint.Claim{Subject: subject, Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}
	}
	a, b, c := claim("a"), claim("b"), claim("c")
	several := stint.Charge{ID: 7, At: 10, Claim: a, RequestID: "x", IDLife: time.Minute, And: []stint.Claim{b, c}}
	contract.SetGeneration(&several, 0, 100)
	contract.SetGeneration(&several, 1, 101)
	contract.SetGeneration(&several, 2, 102)
	named := stint.Claim{Subject: "n",
		Limits: []stint.Limit{stint.PerHour(1), stint.PerDay(1), stint.PerHour(1).WithName("x"),
			stint.AtOnce(1, time.Hour)}, Cost: 1}
	scoped := named
	scoped.Scope = "other"
	two := stint.Charge{ID: 7, At: 10, Claim: named, And: []stint.Claim{a, scoped}}
	for i := range 5 {
		contract.SetGeneration(&two, i, uint32(100+i))
	}
	split := stint.Charge{ID: 7, At: 10, Claim: a, And: []stint.Claim{b, c},
		Others: &stint.OtherStates{Generations: make([]uint32, 2), At: []int64{20, 30}}}
	local := stint.Charge{ID: 7, At: 10, Claim: a, Fallback: true, And: []stint.Claim{b},
		Others: &stint.OtherStates{Generations: []uint32{5}}}
	broken := stint.Charge{ID: 7, At: 10, Claim: a, And: []stint.Claim{b, c},
		Others: &stint.OtherStates{At: []int64{20}}}
	one := stint.Charge{ID: 7, At: 10, Claim: a}
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
			stint.Charge{ID: 7, At: 10, Generation: 100, Claim: a, RequestID: "x", IDLife: time.Minute}},
		{"another", several, []int{1}, stint.Charge{ID: 7, At: 10, Generation: 101, Claim: b}},
		{"several others", several, []int{2, 1}, stint.Charge{ID: 7, At: 10, Generation: 101, Claim: b,
			And: []stint.Claim{c}, Others: &stint.OtherStates{Generations: []uint32{102}}}},
		{"generations of names", two, []int{0, 2}, stint.Charge{ID: 7, At: 10, Generation: 100, Claim: named,
			And: []stint.Claim{scoped}, Others: &stint.OtherStates{Generations: []uint32{101, 103, 104}}}},
		{"the generations of one", two, []int{2},
			stint.Charge{ID: 7, At: 10, Generation: 103, Claim: scoped,
				Others: &stint.OtherStates{Generations: []uint32{104}}}},
		{"instants", split, []int{1, 2}, stint.Charge{ID: 7, At: 20, Claim: b,
			And: []stint.Claim{c}, Others: &stint.OtherStates{Generations: []uint32{0}, At: []int64{30}}}},
		{"instants beside the first", split, []int{0, 2}, stint.Charge{ID: 7, At: 10, Claim: a,
			And: []stint.Claim{c}, Others: &stint.OtherStates{Generations: []uint32{0}, At: []int64{30}}}},
		{"the instant of one", split, []int{2}, stint.Charge{ID: 7, At: 30, Claim: c}},
		{"origin", local, []int{1}, stint.Charge{ID: 7, At: 10, Generation: 5, Claim: b, Fallback: true}},
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
			if got.ID != 0 {
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
		return stint.Charge{ID: 1, Claim: stint.Claim{Subject: "a", Limits: limits, Cost: 1},
			Others: &stint.OtherStates{Generations: generations}}
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
			t.Errorf("%v with generations %v: %v", test.charge.Claim.Limits, test.charge.Others.Generations, err)
		}
	}
}

// What is done to a part leaves the whole as it was.
func TestChargePartIsACopy(t *testing.T) {
	claims := []stint.Claim{{Subject: "b"}, {Subject: "c"}}
	whole := stint.Charge{ID: 1, Claim: stint.Claim{Subject: "a"}, And: claims}
	part := whole.Part(0, 1, 2)
	part.Claim.Subject, part.And[0].Subject, part.Leased = "x", "y", true
	if whole.Claim.Subject != "a" || claims[0].Subject != "b" || whole.Leased {
		t.Errorf("the whole is now %+v", whole)
	}
	numbers := []int{2, 1}
	whole.Part(numbers...)
	if numbers[0] != 2 {
		t.Error("the caller's numbers were sorted")
	}
}
