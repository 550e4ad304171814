package contract_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

func TestValidateInspect(t *testing.T) {
	hour := stint.PerHour(1)
	for _, test := range []struct {
		name  string
		claim stint.Claim
		want  string // in the error, "" for none
	}{
		{"no limits", stint.Claim{Subject: "a"}, ""},
		{"limits", stint.Claim{Subject: "a", Scope: "b", Limits: []stint.Limit{hour}}, ""},
		{"any cost", stint.Claim{Subject: "a", Cost: -7}, ""},
		{"no subject", stint.Claim{}, "Subject has 0 bytes"},
		{"the same limit twice", stint.Claim{Subject: "a", Limits: []stint.Limit{hour, hour}}, "same name"},
		{"a limit that is none", stint.Claim{Subject: "a", Limits: []stint.Limit{{}}}, "a window of 0s"},
		{"too many", stint.Claim{Subject: "a", Limits: make([]stint.Limit, stint.MaxLimits+1)}, "17 limits"},
	} {
		err := contract.ValidateInspect(test.claim)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestShow(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	var w driver.Window
	contract.Show(&w, []driver.Entry{{At: at(3), Units: 3}, {At: at(1), Units: 1}, {At: at(2), Units: 2}})
	for i, e := range w.Entries {
		if want := int64(i + 1); e.Units != want || w.LeftOut != 0 {
			t.Errorf("entry %d has %d units, want %d", i, e.Units, want)
		}
	}
	many := make([]driver.Entry, driver.MaxEntries+2)
	for i := range many {
		many[i] = driver.Entry{At: at(int64(i)), Units: 10}
	}
	contract.Show(&w, many)
	if len(w.Entries) != driver.MaxEntries || w.LeftOut != 20 || !w.Entries[0].At.Equal(at(2)) {
		t.Errorf("%d entries from %v on, %d left out", len(w.Entries), w.Entries[0].At, w.LeftOut)
	}
}

func TestLife(t *testing.T) {
	limits := []stint.Limit{stint.PerDay(1), stint.PerMinute(1), stint.PerHour(1)}
	r := stint.Request{Claims: []stint.Claim{{Limits: limits}, {Limits: []stint.Limit{stint.PerSecond(1)}}}}
	for _, test := range []struct{ asked, hold, want time.Duration }{
		{0, 0, time.Minute}, // the shortest window of the first claim
		{time.Hour, 0, time.Hour},
		{0, 2 * time.Minute, 2 * time.Minute},
		{time.Second, 2 * time.Minute, 2 * time.Minute},
	} {
		r.IDLife, r.Hold = test.asked, test.hold
		if got := contract.Life(&r); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestCharges(t *testing.T) {
	for _, test := range []struct {
		cost  int64
		costs stint.Costs
		want  bool
	}{{0, nil, false}, {1, nil, true}, {0, stint.Costs{"n": 0}, false}, {1, stint.Costs{"n": 0}, true}, {0, stint.Costs{"n": 1}, true}} {
		c := stint.Claim{Limits: []stint.Limit{stint.PerHour(1), stint.PerHour(1).WithName("n")}, Cost: test.cost,
			Costs: test.costs}
		if got := contract.Charges(&c); got != test.want {
			t.Errorf("%d %v: %v, want %v", test.cost, test.costs, got, test.want)
		}
	}
}

func ban(subject string, until int64) driver.Banned {
	return driver.Banned{Subject: subject, BanState: driver.BanState{Until: time.Unix(until, 0)}}
}

func TestTheLongestAreKept(t *testing.T) {
	const all, most = 10_000, 7
	for _, order := range [][]int{rand.Perm(all), rand.Perm(all)} {
		l := contract.NewBanList(most)
		for _, i := range order {
			l.Add(ban(fmt.Sprint("user:", i), int64(i)))
			l.Add(ban(fmt.Sprint("user:", i), int64(i))) // seen twice
		}
		got := l.Sorted()
		if len(got) != most {
			t.Fatalf("%d bans, want %d", len(got), most)
		}
		for i, b := range got {
			if want := fmt.Sprint("user:", all-1-i); b.Subject != want {
				t.Errorf("number %d is %s, want %s", i, b.Subject, want)
			}
		}
	}
}
