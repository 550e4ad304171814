package resilience

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
)

// What a process holds is not used: it is not given back, and stays with the process.
func TestLeasesAreNotGivenBack(t *testing.T) {
	limit := stint.Per(100, 10*time.Second).WithLease()
	synctest.Test(t, func(t *testing.T) {
		l, store, r, _ := leaseHeld(t, limit)
		held, used := l.held(&r.Claims[0]), leaseUsed(t, store, "a", limit)
		if held == 0 || held == used {
			t.Fatalf("%d held of %d used; want some", held, used)
		}
		time.Sleep(time.Microsecond)
		if err := l.Command(t.Context(),
			stint.Command{Kind: stint.CommandGiveBack, Subject: "a", Limits: r.Claims[0].Limits,
				Units: stint.MaxUnits}); err != nil {
			t.Fatal(err)
		}
		if got := l.held(&r.Claims[0]); got != held {
			t.Errorf("%d held, want %d as before", got, held)
		}
		if got := leaseUsed(t, store, "a", limit); got < held || got >= used {
			t.Errorf("%d used, want at least the %d that are held and fewer than %d", got, held, used)
		}
		if d := mustLease(t, l, r); !fromLease(d) {
			t.Error("not served from memory any more")
		}
	})
}
