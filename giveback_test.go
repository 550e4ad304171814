package stint_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
)

func TestGiveBack(t *testing.T) {
	lim := newLimiter(t, stint.PerHour(10), stint.TokenBucket(20, 1, stint.MaxWindow))
	used := func(scope string) (n [2]int64) {
		t.Helper()
		d, err := lim.Take(t.Context(),
			stint.Request{Claims: []stint.Claim{{Subject: "a", Scope: scope}}, Mode: stint.ModePeek})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range d.States() {
			n[i] = s.Used
		}
		return n
	}
	for _, scope := range []string{"", "x", "y"} {
		if _, err := lim.Take(t.Context(),
			stint.Request{Claims: []stint.Claim{{Subject: "a", Scope: scope, Cost: 7}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := lim.GiveBack(t.Context(), "a", 2); err != nil {
		t.Fatal(err)
	}
	if err := lim.GiveBack(t.Context(), "a", 5, "x", "y"); err != nil {
		t.Fatal(err)
	}
	for scope, want := range map[string][2]int64{"": {5, 5}, "x": {2, 2}, "y": {2, 2}} {
		if got := used(scope); got != want {
			t.Errorf("scope %q: used %v, want %v", scope, got, want)
		}
	}
}

func TestCommandMistakes(t *testing.T) {
	limits := []stint.Limit{stint.PerHour(1)}
	for _, test := range []struct {
		command stint.Command
		tells   []string // nothing if it is good
	}{
		{stint.Command{Kind: stint.CommandReset, Subject: "a"}, nil},
		{stint.Command{Kind: stint.CommandBan, Subject: "a"}, nil},
		{stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: limits, Units: 1}, nil},
		{stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: limits, Units: stint.MaxUnits}, nil},
		{stint.Command{Kind: stint.CommandUnban}, []string{"the subject has 0 bytes"}},
		{stint.Command{Kind: 9, Subject: "a"}, []string{"command 9; want Reset, Ban, Unban or GiveBack"}},
		{stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: limits},
			[]string{"Units is 0; want 1 to 9007199254740992"}},
		{stint.Command{Kind: stint.CommandGiveBack, Units: stint.MaxUnits + 1},
			[]string{"Units is 9007199254740993", "Subject has 0 bytes", "0 limits"}},
		{stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: append(limits, limits...), Units: 1},
			[]string{"Limits[1]", "same name"}},
	} {
		err := test.command.Validate()
		var invalid *stint.InvalidError
		if errors.As(err, &invalid) != (len(test.tells) > 0) {
			t.Errorf("%+v: error %v", test.command, err)
			continue
		}
		for _, text := range test.tells {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q is not told by: %v", text, err)
			}
		}
	}
}
