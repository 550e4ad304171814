package oracle_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/oracle"
	"github.com/stint-limiter/stint/internal/testkit"
)

// lenient is a store with one fault: it decides under a limit other than the requested one.
type lenient struct {
	*oracle.Store
	change func(*stint.Limit)
}

func (l lenient) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	changed := r
	changed.Claims = slices.Clone(changed.Claims)
	changed.Claims[0].Limits = []stint.Limit{r.Claims[0].Limits[0]}
	l.change(&changed.Claims[0].Limits[0])
	return l.Store.Take(ctx, changed)
}

func unit(l stint.Limit) stint.Request {
	return stint.Request{Claims: []stint.Claim{{Subject: "s", Limits: []stint.Limit{l}, Cost: 1}}}
}

func take(t *testing.T, s stint.Store, r stint.Request) stint.Decision {
	t.Helper()
	return testkit.Must(s.Take(t.Context(), r))(t)
}

// wantVerdict records a thousand decisions in truth, or fewer if one is an error, and checks that
// the error contains want. If want is "", there must be no error.
func wantVerdict(t *testing.T, truth *oracle.Truth, want string, next func(i int) (at int64, r stint.Request, d stint.Decision)) {
	t.Helper()
	got := ""
	for i := 0; i < 1000 && got == ""; i++ {
		if err := truth.Took(next(i)); err != nil {
			got = err.Error()
		}
	}
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("got %.300q, want %q", got, want)
	}
}

// careless is a store that charges leases as if they were used at once.
type careless struct{ *oracle.Store }

func (c careless) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	during := r.Terms().Lease
	r.Terms().Lease, r.Terms().Fit = 0, true
	d, err := c.Store.Take(ctx, r)
	if d.Charge.Data().ID != 0 {
		d.Charge.Data().At += during.Microseconds()
	}
	return d, err
}

// stingy is a store that charges only half of the requested cost.
type stingy struct{ *oracle.Store }

func (s stingy) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	r.Claims = slices.Clone(r.Claims)
	r.Claims[0].Cost = (r.Claims[0].Cost + 1) / 2
	return s.Store.Take(ctx, r)
}

// TestTruthFindsLies takes one unit every 10 ms for 10 s from stores that admit too much or give
// back too late, and from one that does neither. In some cases, every third request is a lease.
func TestTruthFindsLies(t *testing.T) {
	fixed := stint.Limit{Max: 20, Window: time.Second, Algorithm: stint.AlgorithmFixed}
	burst, sliced := stint.PerSecond(20).BurstTimes(2), stint.PerSecond(90).BurstTimes(2)
	honest := func(s *oracle.Store) stint.Store { return s }
	under := func(change func(*stint.Limit)) func(*oracle.Store) stint.Store {
		return func(s *oracle.Store) stint.Store { return lenient{s, change} }
	}
	early := func(s *oracle.Store) stint.Store { return careless{s} }
	small := func(s *oracle.Store) stint.Store { return stingy{s} }
	const takes, leases = false, true
	for _, c := range []struct {
		name   string
		limit  stint.Limit
		store  func(*oracle.Store) stint.Store
		leases bool
		want   string
	}{
		{"honest", stint.PerSecond(20), honest, takes, ""},
		{"honest slices", sliced, honest, takes, ""},
		{"honest bucket", stint.TokenBucket(20, 20, time.Second), honest, takes, ""},
		{"honest fixed", fixed, honest, takes, ""},
		{"honest burst", burst, honest, takes, ""},
		{"one too many", stint.PerSecond(20), under(func(l *stint.Limit) { l.Max++ }), takes, "admitted 21"},
		{"released early", stint.PerSecond(20), under(func(l *stint.Limit) { l.Window -= 20 * time.Millisecond }),
			takes, "admitted 21"},
		{"a bucket for a window", stint.PerSecond(20),
			under(func(l *stint.Limit) { l.Algorithm = stint.AlgorithmBucket }), takes, "admitted 21"},
		{"a fixed window for a sliding one", stint.PerSecond(20),
			under(func(l *stint.Limit) { l.Algorithm = stint.AlgorithmFixed }), takes, "admitted 21"},
		{"a bucket that refills too fast", stint.TokenBucket(20, 20, time.Second),
			under(func(l *stint.Limit) { l.Max *= 3 }), takes, "admitted 21"},
		{"a burst without a meter", burst, under(func(l *stint.Limit) { l.Max, l.Burst = 40, 0 }), takes,
			"admitted 41 up to"},
		{"a burst without a log", burst, under(func(l *stint.Limit) { l.Algorithm = stint.AlgorithmBucket }), takes,
			"admitted 41"},
		{"one too many, fixed", fixed, under(func(l *stint.Limit) { l.Max++ }), takes, "admitted 21"},
		{"released late", stint.PerSecond(20), under(func(l *stint.Limit) { l.Window += 20 * time.Millisecond }),
			takes, "denied"},
		{"one too few", stint.PerSecond(20), under(func(l *stint.Limit) { l.Max-- }), takes, "denied"},
		{"honest leases", stint.PerSecond(20), honest, leases, ""},
		{"honest leases in slices", sliced, honest, leases, ""},
		{"honest leases, fixed", fixed, honest, leases, ""},
		{"leases counted from the start only", stint.PerSecond(20), early, leases, "admitted"},
		{"leases counted from the start only, in slices", sliced, early, leases, "admitted"},
		{"leases counted from the start only, fixed", fixed, early, leases, "admitted"},
		{"less than fits", stint.PerSecond(20), small, leases, "room for more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := int64(1_700_000_000_123_456)
			store := c.store(oracle.New(func() int64 { return clock }))
			wantVerdict(t, oracle.NewTruth(), c.want, func(i int) (int64, stint.Request, stint.Decision) {
				clock += 10_000
				r := unit(c.limit)
				if c.leases && i%3 == 0 {
					r.Claims[0].Cost, r.Terms().Lease = 8, 1200*time.Millisecond
				}
				return clock, r, take(t, store, r)
			})
		})
	}
}

// hoarder leases units for half a second and grants them from memory. If wild is set, it ignores
// denials of the store.
type hoarder struct {
	*oracle.Store
	clock *int64
	block stint.Charge
	wild  bool
}

func (h *hoarder) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if h.block.Claims()[0].Cost == 0 || h.block.Data().At <= *h.clock {
		ask := r
		ask.Claims = slices.Clone(ask.Claims)
		ask.Claims[0].Cost, ask.Terms().Lease = r.Claims[0].Limits[0].Capacity(), 500*time.Millisecond
		d, err := h.Store.Take(ctx, ask)
		if !d.Allowed && !h.wild || err != nil {
			return d, err
		}
		h.block = driver.NewCharge([]stint.Claim{r.Claims[0]}, driver.ChargeData{At: *h.clock + 500_000})
		h.block.Claims()[0].Cost = r.Claims[0].Limits[0].Capacity()
		if !h.wild {
			h.block = d.Charge
		}
	}
	h.block.Claims()[0].Cost--
	c := driver.NewCharge([]stint.Claim{r.Claims[0]}, driver.ChargeData{ID: 1, At: h.block.Data().At, Leased: 1})
	d := stint.Decision{Allowed: true, Charge: c}
	d.MakeUsages(1)
	return d, nil
}

// TestTruthFindsLiesFromMemory uses most units of a block in the last 200 ms of their lease.
func TestTruthFindsLiesFromMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit stint.Limit
		wild  bool
		want  string
	}{
		{"honest", stint.PerSecond(20), false, ""},
		{"honest burst", stint.PerSecond(20).BurstTimes(4), false, ""},
		{"unlimited", stint.PerSecond(20), true, "within 1000000"},
		{"a burst unlimited", stint.PerSecond(20).BurstTimes(4), true, "within 1000000"},
		{"a burst without a meter", stint.Limit{Max: 20, Burst: 80, Window: time.Second}, false, "not counting refills"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := int64(1_700_000_000_123_456)
			store := &hoarder{Store: oracle.New(func() int64 { return clock }), clock: &clock, wild: c.wild}
			truth, allowed := oracle.NewTruth(), true
			truth.AnyDelay = true
			wantVerdict(t, truth, c.want, func(i int) (int64, stint.Request, stint.Decision) {
				if !allowed {
					clock += 20_000
				}
				clock += 1_000
				if i > 0 && store.block.Claims()[0].Cost > 0 && store.block.Data().At-clock > 400_000 {
					clock = store.block.Data().At - 200_000
				}
				ask := unit(c.limit)
				if strings.Contains(c.name, "without a meter") {
					ask = unit(stint.PerSecond(80))
				}
				d := take(t, store, ask)
				allowed = d.Allowed
				return clock, unit(c.limit), d
			})
		})
	}
}
