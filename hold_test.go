package stint_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

// TestHold: a place is kept for as long as its holder says, whatever becomes of the context, and not longer.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memorystore.New(memorystore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		lim, err := stint.New(store, stint.AtOnce(1, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		first, err := lim.Acquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		release := lim.Hold(ctx, first)
		cancel()
		time.Sleep(time.Minute)
		if d, err := lim.Acquire(context.Background(), "job"); err != nil || d.Allowed {
			t.Fatalf("allowed %v, error %v: the place is taken", d.Allowed, err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
		second, err := lim.Acquire(context.Background(), "job")
		if err != nil || !second.Allowed {
			t.Fatalf("allowed %v, error %v: the place is free", second.Allowed, err)
		}
	})
}

func TestHoldNothing(t *testing.T) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lim, err := stint.New(store, stint.PerMinute(1))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // allowed, then denied
		d, err := lim.Allow(context.Background(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if lim.Hold(context.Background(), d) != nil {
			t.Error("there is no place to hold")
		}
	}
}

// failing is a store that cannot be amended.
type failing struct{ stint.Store }

var errDown = errors.New("down")

func (failing) Amend(context.Context, stint.Charge, stint.Amendment) (bool, error) {
	return false, errDown
}

func TestHoldTellsOfFailure(t *testing.T) {
	c := stint.Charge{ID: 1, Claim: stint.Claim{Subject: "a", Cost: 1, Limits: []stint.Limit{stint.AtOnce(1, time.Second)}}}
	if err := stint.Hold(context.Background(), failing{}, c)(); !errors.Is(err, errDown) {
		t.Errorf("got %v, want %v", err, errDown)
	}
}
