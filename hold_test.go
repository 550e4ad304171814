package stint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
)

var errDown = errors.New("down")

// cut is a store that can be out of reach. It notes when amendments are sent.
type cut struct {
	stint.Store
	down atomic.Bool
	beat func(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) // instead of a heartbeat

	mu  sync.Mutex
	log []string
}

var errCut = &stint.StoreError{Op: "amend", Kind: stint.KindTimeout, Err: errDown}

func (s *cut) Amend(ctx context.Context, c stint.Charge, a stint.Amendment) (stint.Amended, error) {
	s.mu.Lock()
	kind := map[stint.AmendmentKind]string{
		stint.AmendSettle: "settle", stint.AmendExtend: "extend", stint.AmendRelease: "release"}[a.Kind]
	s.log = append(s.log, fmt.Sprint(kind, time.Now().Second()))
	s.mu.Unlock()
	if s.down.Load() {
		<-ctx.Done()
		return stint.Amended{}, errCut
	}
	if a.Kind == stint.AmendExtend && s.beat != nil {
		return s.beat(ctx, c, a)
	}
	return s.Store.Amend(ctx, c, a)
}

func newCut(t *testing.T) *cut {
	t.Helper()
	return &cut{Store: newMemory(t)}
}

func newPlaces(t *testing.T, store stint.Store, most int64, lasts time.Duration) (lim *stint.Limiter,
	acquire func() stint.Decision) {
	t.Helper()
	lim, err := stint.New(store, stint.Concurrency(most, lasts))
	if err != nil {
		t.Fatal(err)
	}
	return lim, func() stint.Decision {
		t.Helper()
		d, err := lim.Allow(context.Background(), "job")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// The first heartbeat comes after a third of the time, and what happened before Hold was called is
// allowed for.
func TestHoldTellsBeforeTheFirstHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCut(t)
		lim, acquire := newPlaces(t, store, 1, 10*time.Second)
		held, release := lim.Hold(context.Background(), acquire())
		store.down.Store(true)
		start := time.Now()
		<-held.Done()
		if passed := time.Since(start); passed != 9*time.Second {
			t.Errorf("told after %v, want 9s", passed)
		}
		err := release()
		if !errors.Is(err, stint.ErrPlaceLost) || !errors.Is(err, errDown) {
			t.Errorf("release says %v, want that the place is lost, and why", err)
		}
	})
}

// Who is told by the store that the place is lost, after a reset, does not ask again.
func TestHoldEndsWithAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCut(t)
		lim, acquire := newPlaces(t, store, 1, 9*time.Second)
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
		if len(store.log) != 1 {
			t.Errorf("sent %v, want one heartbeat", store.log)
		}
		if !acquire().Allowed {
			t.Error("the place was taken back")
		}
		if err := release(); !errors.Is(err, stint.ErrPlaceLost) {
			t.Errorf("release says %v, want %v", err, stint.ErrPlaceLost)
		}
	})
}

// A quantity whose name is misspelled would never be settled.
// A part that does not exist, and an amendment without a kind, are refused: neither refunds.
func TestAmendMistakes(t *testing.T) {
	lim := newLimiter(t, stint.PerDay(9))
	d, err := lim.AllowN(t.Context(), "a", 5)
	if err != nil {
		t.Fatal(err)
	}
	part, settle := d, stint.Amendment{Kind: stint.AmendSettle}
	part.Charge = d.Charge.Part(1)
	for _, test := range []struct {
		d    stint.Decision
		a    stint.Amendment
		want string
	}{
		{part, settle, "the charge has no claims"},
		{d, stint.Amendment{}, "the Kind of the amendment is 0; want AmendSettle, AmendExtend or AmendRelease"},
		{d, stint.Amendment{KnownOnly: true}, "KnownOnly is set; want it with AmendExtend only"},
	} {
		done, err := lim.Amend(t.Context(), test.d, test.a)
		var invalid *stint.InvalidError
		if done.Changed || !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v and %v, want %s", done, err, test.want)
		}
	}
	if d, err := lim.Peek(t.Context(), "a"); err != nil || d.Remaining() != 4 {
		t.Errorf("%d are left, %v; want 4", d.Remaining(), err)
	}
}

func TestAmendUnknownName(t *testing.T) {
	lim := newLimiter(t, stint.PerDay(9).WithName("input"), stint.PerDay(9))
	d, err := lim.Take(t.Context(), stint.Request{Hold: time.Minute, Claims: []stint.Claim{{Subject: "a", Cost: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `Costs["inptu"]: no limit of the charge has that name (did you mean "input"?)`
	for _, kind := range []stint.AmendmentKind{stint.AmendSettle, stint.AmendExtend} {
		_, err := lim.Amend(t.Context(), d, stint.Amendment{Kind: kind, Costs: stint.Costs{"inptu": 3, "": 1}})
		if invalid := (*stint.InvalidError)(nil); !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	done, err := lim.Amend(t.Context(), d, stint.Amendment{Kind: stint.AmendSettle, Costs: stint.Costs{"input": 3, "": 1}})
	if err != nil || done != (stint.Amended{Changed: true, Charged: 4}) {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestHold: a place is kept for as long as its holder says, whatever becomes of the context, and
// not longer.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, acquire := newPlaces(t, newCut(t), 1, 10*time.Second)
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
