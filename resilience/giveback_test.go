package resilience

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/internal/redistest"
)

func giveBackOf(subject string, units int64, limits ...stint.Limit) stint.Command {
	return stint.Command{Kind: stint.CommandGiveBack, Subject: subject, Limits: limits, Units: units}
}

// Without the store, units go back to the process's part of the limit; with it, to the store alone.
func TestFallbackGivesBack(t *testing.T) {
	for _, l := range []stint.Limit{stint.PerHour(1000), stint.PerHour(10), stint.TokenBucket(10, 10, time.Hour)} {
		inner := newFlaky(t)
		f := newFallbackFor(t, inner, Config{Instances: 2})
		take := func(units int64) bool {
			t.Helper()
			r := oneUnit("a", l)
			r.Claims[0].Cost = units
			return mustDecide(t, f, r).Allowed
		}
		half := l.Capacity() / 2
		inner.fail(unreachable(), "take")
		if !take(half) || take(1) {
			t.Fatalf("%s: want half of it to be admitted", l)
		}
		if err := f.Command(t.Context(), giveBackOf("a", 2, l)); err != nil {
			t.Fatal(err)
		}
		if take(1) {
			t.Errorf("%s: given back to the store and locally", l)
		}
		inner.down()
		if err := f.Command(t.Context(), giveBackOf("a", 2, l)); !errors.Is(err, errDown) {
			t.Errorf("%s: got %v, want the store's error", l, err)
		}
		if !take(2) || take(1) {
			t.Errorf("%s: want two to be given back locally", l)
		}
		var invalid *stint.InvalidError
		if err := f.Command(t.Context(),
			giveBackOf("a", 1, stint.Limit{Max: 1, Algorithm: stint.AlgorithmBucket})); !errors.As(err, &invalid) {
			t.Errorf("a wrong limit: got %v, want an InvalidError", err)
		}
	}
}

// What is given back through a deny cache is there at once, whatever the store says.
func TestDenyCacheGivesBack(t *testing.T) {
	g := newDenyRig(t, Config{})
	r := oneUnit("a", stint.PerHour(1))
	g.want(r, true, fromStore)
	g.want(r, false, fromStore)
	g.want(r, false, fromMemory)
	if err := g.cache.Command(t.Context(), giveBackOf("a", 1, r.Claims[0].Limits...)); err != nil {
		t.Fatal(err)
	}
	g.want(r, true, fromStore)
}

// What another process gives back is heard of.
func TestStacksHearOfUnitsGivenBack(t *testing.T) {
	url := redistest.Start(t).URL()
	ours := newStack(t, openRedis(t, url), Config{Failure: patient})
	theirs := newStack(t, openRedis(t, url), Config{Failure: patient})
	r := oneUnit("a", stint.PerHour(1))
	if !mustDecide(t, ours, r).Allowed || mustDecide(t, ours, r).Allowed || mustDecide(t, ours, r).Allowed {
		t.Fatal("want one to be admitted")
	}
	if err := theirs.Command(t.Context(), giveBackOf("a", 1, r.Claims[0].Limits...)); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "there is room again", func() bool { return mustDecide(t, ours, r).Allowed })
}
