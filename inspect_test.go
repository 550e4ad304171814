package stint_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

func TestInspect(t *testing.T) {
	lim := newLimiter(t, stint.PerMinute(10), stint.PerHour(100), stint.WithBans(stint.BanPolicy{}))
	for range 3 {
		if _, err := lim.Allow(t.Context(), "user:42"); err != nil {
			t.Fatal(err)
		}
	}
	if err := lim.Ban(t.Context(), "user:42", time.Hour); err != nil {
		t.Fatal(err)
	}
	shown, err := lim.Inspect(t.Context(), stint.Claim{Subject: "user:42"})
	if err != nil {
		t.Fatal(err)
	}
	if left := shown.Ban.Until.Sub(shown.Now); left <= 0 || left > time.Hour {
		t.Errorf("banned for %v more, want up to an hour", left)
	}
	for i, want := range []int64{7, 97} {
		w := shown.Windows[i]
		var units int64
		for _, e := range w.Entries {
			units += e.Units
		}
		if w.Remaining() != want || units != 3 {
			t.Errorf("%s: %d remaining, %d units in entries; want %d and 3", w.Limit, w.Remaining(), units, want)
		}
	}
	own := stint.Claim{Subject: "user:42", Scope: "elsewhere", Limits: []stint.Limit{stint.PerDay(5)}}
	if shown, err = lim.Inspect(t.Context(), own); err != nil || len(shown.Windows) != 1 || shown.Windows[0].Used != 0 {
		t.Errorf("elsewhere: %+v, %v; want one limit, unused", shown.Windows, err)
	}
}

func TestInspectRefuses(t *testing.T) {
	var invalid *stint.InvalidError
	if _, err := newLimiter(t, stint.PerHour(1)).Inspect(t.Context(), stint.Claim{}); !errors.As(err, &invalid) {
		t.Errorf("no subject: %v, want an InvalidError", err)
	}
	lim, err := stint.New(struct{ stint.Store }{}, stint.PerHour(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lim.Inspect(t.Context(), stint.Claim{Subject: "a"}); !errors.As(err, &invalid) || !errors.Is(err, stint.ErrNotInspector) {
		t.Errorf("a store that shows nothing: %v, want ErrNotInspector", err)
	}
}

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
		{"a limit that is none", stint.Claim{Subject: "a", Limits: []stint.Limit{{}}}, "Window is 0s"},
		{"too many", stint.Claim{Subject: "a", Limits: make([]stint.Limit, stint.MaxLimits+1)}, "17 limits"},
	} {
		err := test.claim.ValidateInspect()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestShow(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	var w stint.Window
	w.Show([]stint.Entry{{At: at(3), Units: 3}, {At: at(1), Units: 1}, {At: at(2), Units: 2}})
	for i, e := range w.Entries {
		if want := int64(i + 1); e.Units != want || w.LeftOut != 0 {
			t.Errorf("entry %d has %d units, want %d", i, e.Units, want)
		}
	}
	many := make([]stint.Entry, stint.MaxEntries+2)
	for i := range many {
		many[i] = stint.Entry{At: at(int64(i)), Units: 10}
	}
	w.Show(many)
	if len(w.Entries) != stint.MaxEntries || w.LeftOut != 20 || !w.Entries[0].At.Equal(at(2)) {
		t.Errorf("%d entries from %v on, %d left out", len(w.Entries), w.Entries[0].At, w.LeftOut)
	}
}
