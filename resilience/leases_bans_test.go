package resilience

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/keypart"
)

// Bans do not concern a shared subject: its units are not those of a caller, but they are those of
// everybody who does not obey bans.
func TestLeasesShared(t *testing.T) {
	limit := stint.Per(1000, 10*time.Second).WithLease()
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 0)
		l := newLeasesFor(t, store, Config{})
		if err := store.Command(t.Context(),
			stint.Command{Kind: stint.CommandBan, Subject: "a", For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		r := leaseAsk("a", 1, limit)
		r.Claims[0].Shared, r.Bans = true, &stint.BanPolicy{
			After: 2, Within: time.Minute, Durations: []time.Duration{time.Minute}}
		leaseStarted(t, l, r, time.Millisecond)
		if d := mustLease(t, l, leaseAsk("a", 1, limit)); !fromLease(d) {
			t.Error("who does not obey bans is not served from the same units")
		}
		d := mustLease(t, l, r)
		if !fromLease(d) {
			t.Fatal("not from memory")
		}
		for _, want := range []bool{true, false} {
			if got, err := l.Amend(t.Context(), d.Charge.Part(0), stint.Amendment{}); got.Changed != want ||
				err != nil {
				t.Errorf("refunded %v, %v, want %v", got, err, want)
			}
		}
		r.Claims[0].Shared = false
		if d := mustLease(t, l, r); !d.Banned {
			t.Error("who is not shared was not banned")
		}
	})
}

func TestLeasesBansAndResets(t *testing.T) {
	limit := stint.Per(1000, 10*time.Second).WithLease()
	with := func(r stint.Request) stint.Request {
		r.Bans = &stint.BanPolicy{After: 2, Within: time.Minute, Durations: []time.Duration{time.Minute}}
		return r
	}
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 0)
		l, elsewhere := newLeasesFor(t, store, Config{}), newLeasesFor(t, store, Config{})
		r := with(leaseAsk("a", 1, limit))
		leaseStarted(t, l, r, time.Millisecond)
		if store.last.Bans == nil || store.last.Bans.After != 0 {
			t.Errorf("a renewal has the ban policy %+v, want one that obeys", store.last.Bans)
		}
		if d := mustLease(t, l, leaseAsk("a", 1, limit)); fromLease(d) {
			t.Error("who does not obey bans shares with who does")
		}
		shared := r
		shared.Claims = slices.Clone(shared.Claims)
		shared.Claims[0].Shared = true
		if d := mustLease(t, l, shared); fromLease(d) {
			t.Error("a subject that is shared shares its units with one that is not")
		}
		// A ban made here takes effect at once.
		if err := l.Command(t.Context(),
			stint.Command{Kind: stint.CommandBan, Subject: "a", For: time.Second}); err != nil {
			t.Fatal(err)
		}
		if d := mustLease(t, l, r); !d.Banned {
			t.Error("served although banned")
		}
		time.Sleep(2 * time.Second)
		// One made elsewhere after the length of a lease at most.
		leaseStarted(t, l, r, time.Millisecond)
		if err := elsewhere.Command(t.Context(),
			stint.Command{Kind: stint.CommandBan, Subject: "a", For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		banned := time.Now()
		for !mustLease(t, l, r).Banned {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(banned); took > 500*time.Millisecond {
			t.Errorf("banned only after %v", took)
		}
		if l.leases() > 1 {
			t.Error("the lease of a banned subject is kept")
		}
		// Or at once when announced.
		r.Claims[0].Subject = "b"
		leaseStarted(t, l, r, time.Millisecond)
		if err := elsewhere.Command(t.Context(),
			stint.Command{Kind: stint.CommandBan, Subject: "b", For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		l.drop("b")
		if d := mustLease(t, l, r); !d.Banned {
			t.Error("served although banned")
		}
		// By its hash if it is too long to be announced.
		r.Claims[0].Subject = "user:" + strings.Repeat("名", 15)
		leaseStarted(t, l, r, time.Millisecond)
		if err := elsewhere.Command(t.Context(),
			stint.Command{Kind: stint.CommandBan, Subject: r.Claims[0].Subject, For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		l.drop(string(keypart.Append(nil, r.Claims[0].Subject+"2", true)))
		if d := mustLease(t, l, r); !fromLease(d) {
			t.Error("what is announced of another ended its lease")
		}
		l.drop(string(keypart.Append(nil, r.Claims[0].Subject, true)))
		if d := mustLease(t, l, r); !d.Banned {
			t.Error("served although banned")
		}
		l.drop("")
		if n := l.leases(); n != 0 {
			t.Errorf("%d leases after all were dropped", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store := newLeaseFar(t, 10*time.Millisecond)
		l, elsewhere := newLeasesFor(t, store, Config{}), newLeasesFor(t, store, Config{})
		r := leaseAsk("a", 1, limit)
		leaseStarted(t, l, r, time.Millisecond)
		scoped := r
		scoped.Claims = slices.Clone(scoped.Claims)
		scoped.Claims[0].Scope = "s"
		leaseStarted(t, l, scoped, time.Millisecond)
		if err := l.Command(t.Context(),
			stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: r.Claims[0].Limits}); err != nil {
			t.Fatal(err)
		}
		if n := leaseUsed(t, store.Store, "a", limit); n != 0 {
			t.Errorf("the store counts %d after a reset", n)
		}
		if !fromLease(mustLease(t, l, scoped)) {
			t.Error("a reset ended the lease of another scope")
		}
		// After a reset the whole limit is there, once, whoever held what before it.
		r.Claims[0].Limits = []stint.Limit{stint.PerHour(1000).WithLease()}
		leaseStarted(t, l, r, time.Millisecond)
		leaseStarted(t, elsewhere, r, time.Millisecond)
		if err := l.Command(t.Context(),
			stint.Command{Kind: stint.CommandReset, Subject: "a", Limits: r.Claims[0].Limits}); err != nil {
			t.Fatal(err)
		}
		elsewhere.drop("a")
		admitted := 0
		for range 1500 {
			for _, p := range []*leases{l, elsewhere} {
				if mustLease(t, p, r).Allowed {
					admitted++
				}
			}
		}
		if admitted > 1000 {
			t.Errorf("%d admitted after a reset, want at most 1000", admitted)
		}
	})
}
