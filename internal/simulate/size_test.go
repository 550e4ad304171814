package simulate_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/internal/sizing"
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/redisstore"
)

// describeLoad returns a load as text: how long after start, requests, decisions, settlements.
func describeLoad(l simulate.Load) string {
	return words(l.At.Sub(start), l.Requests, l.Decisions, l.Settlements)
}

func TestBusiest(t *testing.T) {
	minute := `tiers: [{name: anyone, identity: ip, limits: 100/1m}]`
	shadow := minute + `
policies: [{name: new, match: {path: /new}, limits: 50/1m, shadow: true}]`
	free := `tiers: [{name: anyone, identity: ip, limits: unlimited}]`
	refund := minute + `
policies: [{name: refund, refund: [5xx]}]`
	calm := func() *records {
		return new(records).add(2, ann, 0, time.Second).
			add(3, bob, 10*time.Second, 100*time.Millisecond). // the busiest second
			add(2, ann, 52*time.Second, 900*time.Millisecond). // start is 7 s into a minute: its last second
			add(1, bob, 53*time.Second, 0)                     // the first second of the next
	}
	tests := []struct {
		name, config   string
		log            *records
		second, minute string
	}{
		{"a calm log", minute, calm(), "10s 3 3 0", "-7s 7 7 0"},
		{"the last second", minute, calm().add(5, bob, 2*time.Minute, 0), "2m0s 5 5 0", "-7s 7 7 0"},
		{"both ends of a second", minute,
			new(records).add(1, ann, 999999*time.Microsecond, 0).add(2, ann, time.Second, 0), "1s 2 2 0", "-7s 3 3 0"},
		// A request whose time goes back counts at the latest time before it.
		{"time going backward", minute, new(records).add(2, ann, 5*time.Second, 0).add(2, bob, 0, 0),
			"5s 4 4 0", "-7s 4 4 0"},
		{"shadow asks again", shadow, new(records).add(3, ann, 0, 0).add(2, ann, time.Second, 0, path("/new")),
			"1s 2 4 0", "-7s 5 7 0"},
		{"refunds", refund, new(records).add(2, ann, 0, 0).add(2, ann, time.Second, 0, status(503)),
			"1s 2 2 2", "-7s 4 4 2"},
		{"unlimited", free, calm(), "10s 3 0 0", "-7s 7 0 0"},
	}
	for _, test := range tests {
		size := replay(t, test.log, simulate.Options{Set: parse(t, test.config)}).Outcome.Size
		if got := describeLoad(size.Second); got != test.second {
			t.Errorf("%s: the busiest second is %s, want %s", test.name, got, test.second)
		}
		if got := describeLoad(size.Minute); got != test.minute {
			t.Errorf("%s: the busiest minute is %s, want %s", test.name, got, test.minute)
		}
	}
	empty := replay(t, new(records), simulate.Options{Set: parse(t, minute)}).Outcome.Size
	if empty != (simulate.Size{}) {
		t.Errorf("an empty log needs %+v", empty)
	}
}

// TestNeed: what the busiest second needs follows from the table of costs.
func TestNeed(t *testing.T) {
	set := parse(t, `
tiers: [{name: anyone, identity: ip, limits: [100/1m, 1000/1h]}]
policies: [{name: site, identity: everyone, limits: 1000/1m}]`)
	size := replay(t, new(records).add(10, ann, 0, 0), simulate.Options{Set: set}).Outcome.Size
	calls := sizing.Calls{Decisions: 10, Subjects: 20, Windows: 30}
	if got, want := size.Plain.Cores, sizing.Plain.Need(calls).CPU/1e6/0.6; got < 0.99*want || got > 1.01*want {
		t.Errorf("%v cores, want %v", got, want)
	}
	if got, want := size.Batched.Replicated, int64(sizing.Batched64.Cost(calls).Replicated+0.5); got != want {
		t.Errorf("%d bytes replicated, want %d", got, want)
	}
}

// TestAtOnce: subjects and memory are those at their peak, for each configuration.
func TestAtOnce(t *testing.T) {
	log := new(records)
	for i := range 100 { // one subject every 10 s
		log.add(1, fmt.Sprintf("192.0.2.%d", i), time.Duration(i)*10*time.Second, 0)
	}
	r := replay(t, log, simulate.Options{
		Set:     parse(t, `tiers: [{name: anyone, identity: ip, limits: 5/1m}]`),
		Against: parse(t, `tiers: [{name: anyone, identity: ip, limits: [5/1m, 100/1h]}]`),
	})
	// A key expires an eighth and a second after its window: after 68.6 s, rounded up.
	if got := r.Outcome.Size; got.Subjects != 7 || !got.SubjectsAt.Equal(after(time.Minute)) || got.Memory < 7*200 ||
		got.Memory > 7*300 {
		t.Errorf("with a minute: got %+v, want 7 subjects", got)
	}
	if got := r.Against.Size; got.Subjects != 100 || got.Memory < 100*200 || got.Memory > 100*350 {
		t.Errorf("with an hour: got %+v, want 100 subjects", got)
	}
}

// TestMemory sends requests to a Redis, and replays a log of them: the memory that they took must
// be near the estimate.
func TestMemory(t *testing.T) {
	server := redistest.Start(t)
	store, err := redisstore.Open(t.Context(), redisstore.Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	client, err := rueidis.NewClient(rueidis.MustParseURL(server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, limits := range []string{
		"100/1m", "[100/1m, 2000/1h, 50000/1d]", "300/2s", "[30/1m burst 2x, 500/1h]", "50/1m bucket", "50/1m fixed",
		"[100/1m, 120/10m, 125/1h]",
	} {
		set := parse(t, "tiers: [{name: anyone, identity: ip, limits: "+limits+"}]")
		if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		log := ask(t, store, set)
		estimate := float64(replay(t, log, simulate.Options{Set: set}).Outcome.Size.Memory)
		if taken := taken(t, client); estimate < 0.75*taken || estimate > 1.25*taken {
			t.Errorf("%s: estimated %.0f bytes, took %.0f", limits, estimate, taken)
		} else {
			t.Logf("%s: estimated %.2f of %.0f bytes", limits, estimate/taken, taken)
		}
	}
}

// ask has subjects send 1 to 100 requests each, and returns a log of them.
func ask(t *testing.T, store *redisstore.Store, set *policy.Set) *records {
	guard, err := policy.NewGuard(store, set, policy.GuardConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	log := new(records)
	for i := range 100 {
		for subject := i; subject < 100; subject++ {
			r := accesslog.Record{At: time.Now().UnixNano(), Client: netip.AddrFrom4([4]byte{10, 0, 0, byte(subject)}),
				Method: "GET", Path: "/", Status: 200}
			var v policy.Verdict
			if err := guard.Decide(context.Background(), &policy.Input{Method: r.Method, Path: r.Path, Peer: r.Client},
				&v); err != nil {
				t.Fatal(err)
			}
			log.list = append(log.list, r)
		}
	}
	return log
}

// taken returns the memory of all keys. Redis reports it without the entry among expiries and the
// buckets of both tables, which take about 56 bytes.
func taken(t *testing.T, client rueidis.Client) (sum float64) {
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		n, err := client.Do(t.Context(), client.B().MemoryUsage().Key(key).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		sum += float64(n) + 56
	}
	return sum
}
