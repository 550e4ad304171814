package stint_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/testkit"
)

var errDown = errors.New("down")

// cut is a store whose amendments time out while down is set. It counts amendments.
type cut struct {
	stint.Store
	down   atomic.Bool
	amends atomic.Int64
}

func (s *cut) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	s.amends.Add(1)
	if s.down.Load() {
		<-ctx.Done()
		return stint.Amended{}, &stint.StoreError{Op: "amend", Kind: stint.KindTimeout, Err: errDown}
	}
	return s.Store.Amend(ctx, c, a)
}

// newPlace returns a limiter with a single place, its store, and a function that takes the place.
// lasts is the lifetime of the place.
func newPlace(t *testing.T, lasts time.Duration) (lim *stint.Limiter, store *cut, acquire func() stint.Decision) {
	t.Helper()
	store = &cut{Store: guardtest.Memory(t)}
	lim = limiterOver(t, store, stint.Concurrency(1, lasts))
	return lim, store, func() stint.Decision {
		t.Helper()
		d := testkit.Must(lim.Allow(context.Background(), "job"))(t)
		return d
	}
}

// The place is lost a tenth of its lifetime early, because some time may have passed before Hold
// was called.
func TestHoldTellsBeforeTheFirstHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store, acquire := newPlace(t, 10*time.Second)
		held, release := lim.Hold(context.Background(), acquire())
		store.down.Store(true)
		start := time.Now()
		<-held.Done()
		if passed := time.Since(start); passed != 9*time.Second {
			t.Errorf("told after %v, want 9s", passed)
		}
		if err := release(); !errors.Is(err, stint.ErrPlaceLost) || !errors.Is(err, errDown) {
			t.Errorf("release says %v, want that the place is lost, and why", err)
		}
	})
}

// After a reset, the store reports that the place is lost. Hold then sends no further heartbeat.
func TestHoldEndsWithAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, store, acquire := newPlace(t, 9*time.Second)
		held, release := lim.Hold(context.Background(), acquire())
		if err := lim.Reset(context.Background(), "job"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-held.Done()
		if passed := time.Since(start); passed != 3*time.Second || context.Cause(held) != stint.ErrPlaceLost {
			t.Errorf("told %v after %v, want %v after 3s", context.Cause(held), passed, stint.ErrPlaceLost)
		}
		time.Sleep(time.Minute)
		if n := store.amends.Load(); n != 1 {
			t.Errorf("%d heartbeats, want one", n)
		}
		if !acquire().Allowed {
			t.Error("the place was taken back")
		}
		if err := release(); !errors.Is(err, stint.ErrPlaceLost) {
			t.Errorf("release says %v, want %v", err, stint.ErrPlaceLost)
		}
	})
}

// Amend refuses unknown names of quantities, parts that do not exist, and amendments without a
// kind. None of them gives anything back.
func TestAmendMistakes(t *testing.T) {
	lim := newLimiter(t, stint.PerDay(9).WithName("input"), stint.PerDay(9))
	d, err := lim.Take(t.Context(), stint.Request{Hold: time.Minute, Claims: []stint.Claim{{Subject: "a", Cost: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	misspelled, part := stint.Costs{"inptu": 3, "": 1}, d
	part.Charge = d.Charge.Part(1)
	const unknown = `Costs["inptu"]: no limit of the charge has that name (did you mean "input"?)`
	for _, test := range []struct {
		d    stint.Decision
		a    stint.Amendment
		want string
	}{
		{part, stint.Amendment{Kind: stint.AmendSettle}, "the charge has no claims"},
		{d, stint.Amendment{}, "the Kind of the amendment is 0; want AmendSettle, AmendExtend or AmendRelease"},
		{d, stint.Amendment{KnownOnly: true}, "KnownOnly is set; want it with AmendExtend only"},
		{d, stint.Amendment{Kind: stint.AmendSettle, Costs: misspelled}, unknown},
		{d, stint.Amendment{Kind: stint.AmendExtend, Costs: misspelled}, unknown},
	} {
		done, err := lim.Amend(t.Context(), test.d, test.a)
		if wantMistake(t, test.a, err, test.want); done.Changed {
			t.Errorf("%+v: %+v", test.a, done)
		}
	}
	done, err := lim.Amend(t.Context(), d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"input": 3, "": 1}})
	if err != nil || done != (stint.Amended{Changed: true, Charged: 4}) {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestHold checks that a place is held until release is called, even if the context ends.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, _, acquire := newPlace(t, 10*time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		_, release := lim.Hold(ctx, acquire())
		cancel()
		time.Sleep(time.Minute)
		if acquire().Allowed {
			t.Error("the place is taken")
		}
		if err := release(); err != nil || !acquire().Allowed {
			t.Errorf("the place is not free, error %v", err)
		}
	})
}
