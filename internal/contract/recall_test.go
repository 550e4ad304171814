package contract_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

func TestRecall(t *testing.T) {
	minute, hour := stint.PerMinute(10), stint.PerHour(100).WithName("n")
	place := stint.Concurrency(3, time.Minute)
	of := func(claims ...stint.Claim) stint.Request {
		return stint.Request{Claims: claims, ID: "x", IDLife: time.Hour}
	}
	a := stint.Claim{Subject: "a", Limits: []stint.Limit{minute, hour}, Cost: 7}
	b := stint.Claim{Subject: "b", Scope: "s", Limits: []stint.Limit{hour, place, minute}, Cost: 3_000_000_000}
	c := stint.Claim{Subject: "a", Scope: "t", Limits: []stint.Limit{minute}}
	for _, test := range []struct {
		name  string
		r     stint.Request
		data  driver.ChargeData
		split bool
		size  int
	}{
		{"one state", of(stint.Claim{Subject: "a", Limits: []stint.Limit{minute}, Cost: 1}),
			driver.ChargeData{ID: 1 << 63, At: stint.MaxUnits, Generation: 5}, false, 33},
		{"two states", of(a), driver.ChargeData{ID: 2, At: 3, Generation: 5,
			Others: &driver.OtherStates{Generations: []uint32{6}}}, false, 37},
		{"a place", of(stint.Claim{Subject: "a", Limits: []stint.Limit{place}, Cost: 1}),
			driver.ChargeData{ID: 2, At: 3}, false, 29},
		{"several claims", of(a, b, c), driver.ChargeData{ID: 2, At: 3, Generation: 5,
			Others: &driver.OtherStates{Generations: []uint32{6, 7, 8, 9}}}, false, 55},
		{"several calls", of(a, b, c), driver.ChargeData{ID: 2, At: 3, Generation: 5,
			Others: &driver.OtherStates{Generations: []uint32{6, 7, 8, 9}, At: []int64{1 << 50, 3}}}, true, 63},
	} {
		first := driver.NewCharge(test.r.Claims, test.data)
		first.Data().RequestID, first.Data().IDLife = "x", time.Hour
		shape := contract.Shape(test.r.Claims, contract.NamesOf(test.r.Claims))
		var elsewhere *stint.Charge
		recorded := first
		if test.split {
			elsewhere, recorded = &first, first.Part(0, 2)
		}
		text := string(contract.AppendCharge(nil, &recorded, contract.AppendNote(nil, &test.r, shape, elsewhere)))
		if len(text) != test.size {
			t.Errorf("%s: %d bytes, want %d", test.name, len(text), test.size)
		}
		again := test.r
		again.Claims = append([]stint.Claim(nil), again.Claims...)
		for i := range again.Claims {
			again.Claims[i].Cost = 1
		}
		got, ok := contract.Recall(&again, shape, text)
		if !ok || !reflect.DeepEqual(got.Data(), first.Data()) || !reflect.DeepEqual(got.Claims(), first.Claims()) {
			t.Errorf("%s: got %+v, %v, want %+v", test.name, got, ok, first)
		}
		if _, ok := contract.Recall(&again, shape+1, text); ok {
			t.Errorf("%s: recalled by a request of another shape", test.name)
		}
		for n := range len(text) {
			if _, ok := contract.Recall(&again, shape, text[:n]); ok {
				t.Errorf("%s: recalled from %d bytes of %d", test.name, n, len(text))
			}
		}
	}
}

// Claims that differ in anything but cost, Max, Burst and Leased have another shape.
func TestShape(t *testing.T) {
	base := func() []stint.Claim {
		return []stint.Claim{{Subject: "a", Scope: "s", Limits: []stint.Limit{stint.PerMinute(10)}, Cost: 1},
			{Subject: "b", Limits: []stint.Limit{stint.PerHour(10)}}}
	}
	shape := func(claims []stint.Claim) uint32 { return contract.Shape(claims, contract.NamesOf(claims)) }
	want := shape(base())
	for name, change := range map[string]func(c []stint.Claim) []stint.Claim{
		"subject":   func(c []stint.Claim) []stint.Claim { c[1].Subject = "c"; return c },
		"scope":     func(c []stint.Claim) []stint.Claim { c[0].Scope = ""; return c },
		"moved":     func(c []stint.Claim) []stint.Claim { c[0].Subject, c[0].Scope = "as", ""; return c },
		"name":      func(c []stint.Claim) []stint.Claim { c[0].Limits[0].Name = "n"; return c },
		"window":    func(c []stint.Claim) []stint.Claim { c[0].Limits[0].Window++; return c },
		"algorithm": func(c []stint.Claim) []stint.Claim { c[0].Limits[0].Algorithm++; return c },
		"fewer":     func(c []stint.Claim) []stint.Claim { return c[:1] },
		"limits": func(c []stint.Claim) []stint.Claim {
			c[0].Limits = append(c[0].Limits,
				stint.PerDay(1))
			return c
		},
	} {
		if shape(change(base())) == want {
			t.Errorf("%s: the same shape", name)
		}
	}
	same := base()
	same[0].Cost, same[0].Shared, same[0].Limits[0].Max, same[0].Limits[0].Burst = 9, true, 5, 15
	if shape(same) != want {
		t.Error("another shape by cost and maximum")
	}
}
