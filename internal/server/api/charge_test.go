package api

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

// charges are of every shape.
func charges() []charged {
	one := stint.Claim{Subject: "user:42", Limits: []stint.Limit{stint.PerMinute(100).BurstTimes(3)}, Cost: 1}
	two := stint.Claim{Subject: "a\x00{}:é\xff", Scope: "global", Cost: stint.MaxUnits, Shared: true,
		Limits: []stint.Limit{
			stint.TokenBucket(25, 10, time.Second).WithName("cost"), stint.Concurrency(3, 1500*time.Microsecond),
			stint.PerDay(1).WithLease(), {Max: 0, Window: time.Hour, Algorithm: stint.AlgorithmFixed},
		}}
	charge := func(claims []stint.Claim, data driver.ChargeData, priced uint16) charged {
		return charged{Charge: driver.NewCharge(claims, data), priced: priced}
	}
	held := stint.Claim{Subject: "org:7", Cost: 1, Costs: stint.Costs{"in": 0, "out": 4096}, Limits: []stint.Limit{
		stint.PerMinute(100).WithName("in"), {Max: 9, Window: time.Hour, HoldThrough: true, Name: "out"},
		{Max: 9, Window: 2 * time.Hour, ChargeExpired: true, Name: "out"},
	}}
	a, b := []stint.Claim{one}, []stint.Claim{two}
	return []charged{
		charge(a, driver.ChargeData{ID: 1, At: 1, Generation: 99}, 0),
		charge(b, driver.ChargeData{ID: 1<<64 - 1, At: stint.MaxUnits, Generation: 1<<32 - 1,
			Others: &driver.OtherStates{Generations: []uint32{3}}}, 1),
		charge(a, driver.ChargeData{ID: 7, At: 8, RequestID: "again", IDLife: time.Hour}, 0),
		charge(a, driver.ChargeData{ID: 7, At: 8, Fallback: true, Leased: 1, Leaser: 4095}, 0),
		charge([]stint.Claim{held}, driver.ChargeData{ID: 7, At: 8, Hold: 5 * time.Minute,
			Others: &driver.OtherStates{Generations: []uint32{1}}}, 1),
		charge([]stint.Claim{one, two}, driver.ChargeData{ID: 7, At: 8, Generation: 1, Fallback: true,
			Others: &driver.OtherStates{Generations: []uint32{1 << 31, 5}, At: []int64{9}}}, 3),
	}
}

func TestChargeText(t *testing.T) {
	ctx := t.Context()
	s, other := newKeys(nil, slog.Default()), newKeys(nil, slog.Default())
	for i, c := range charges() {
		text := s.textOf(ctx, &c)
		if got, err := s.open(ctx, text); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("charge %d: got %+v, %v; want %+v", i, got, err, c)
		}
		if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("charge %d: %q is not fit for a URL", i, text)
		}
		if _, err := other.open(ctx, text); err != errNotSigned {
			t.Errorf("charge %d, with another key: %v", i, err)
		}
		if _, err := s.open(ctx, text[:5]+"\n"+text[5:]); err != errNotCharge {
			t.Errorf("charge %d, on two lines: %v", i, err)
		}
		raw, _ := base64.RawURLEncoding.DecodeString(text)
		for k := range raw {
			raw[k] ^= 1
			if _, err := s.open(ctx, base64.RawURLEncoding.EncodeToString(raw)); err == nil {
				t.Errorf("charge %d with byte %d changed is accepted", i, k)
			}
			raw[k] ^= 1
		}
	}
	if got := s.textOf(ctx, &charged{}); got != "" {
		t.Errorf("nothing that was charged is %q", got)
	}
}

// What is signed may still be of another version, or nonsense.
func TestChargeSigned(t *testing.T) {
	s := newKeys(nil, slog.Default())
	signed := func(b []byte) string { return base64.RawURLEncoding.EncodeToString(append(b, s.own.sign(b)...)) }
	c := charges()[5]
	whole := encoded([]byte{chargeVersion}, &c)
	for name, test := range map[string]struct {
		body []byte
		want error
	}{
		"version":   {append([]byte{chargeVersion + 1}, whole[1:]...), errNewVersion},
		"short":     {whole[:len(whole)-1], errNotCharge},
		"long":      {append(whole[:len(whole):len(whole)], 0), errNotCharge},
		"no charge": {encoded([]byte{chargeVersion}, &charged{}), errNotCharge},
	} {
		if _, err := s.open(t.Context(), signed(test.body)); err != test.want {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

func FuzzCharge(f *testing.F) {
	ctx, s := context.Background(), newKeys(nil, slog.Default())
	for _, c := range charges() {
		f.Add(s.textOf(ctx, &c), encoded(nil, &c))
	}
	f.Fuzz(func(t *testing.T, text string, fields []byte) {
		if c, err := s.open(ctx, text); err == nil && s.textOf(ctx, &c) != text {
			t.Errorf("a text that we have not made is accepted: %q", text)
		}
		// With a signature anything is read without harm, and what is accepted says the same when
		// it is written again.
		body := append([]byte{chargeVersion}, fields...)
		c, err := s.open(ctx, base64.RawURLEncoding.EncodeToString(append(body, s.own.sign(body)...)))
		if err != nil {
			return
		}
		if again, err := s.open(ctx, s.textOf(ctx, &c)); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("got %+v, %v; want %+v", again, err, c)
		}
	})
}

// encoded appends a charge to a text.
func encoded(b []byte, c *charged) []byte {
	w := codec{b: b}
	w.charge(c)
	return w.b
}

// away is a store that can be away.
type away struct {
	driver.Keeper
	gone atomic.Bool
}

var errGone = errors.New("gone")

func (a *away) Keep(ctx context.Context, table string, rows []driver.Row, seen int64, missing bool) (int64, error) {
	if a.gone.Load() {
		return 0, errGone
	}
	return a.Keeper.Keep(ctx, table, rows, seen, missing)
}

func (a *away) Kept(ctx context.Context, table string, since int64, f func(driver.Row)) (int64, driver.Rows, error) {
	if a.gone.Load() {
		return 0, 0, errGone
	}
	return a.Keeper.Kept(ctx, table, since, f)
}

// process is one of several that share a store, with a clock that the test moves.
type process struct {
	*keys
	store *away
	clock atomic.Int64 // seconds
}

func (p *process) pass(d time.Duration) { p.clock.Add(int64(d / time.Second)) }

func startProcess(store driver.Keeper) *process {
	p := &process{store: &away{Keeper: store}}
	p.clock.Store(2e9)
	p.keys = newKeys(p.store, slog.New(slog.DiscardHandler))
	p.now = func() time.Time { return time.Unix(p.clock.Load(), 0) }
	return p
}

func storedCharge() *charged {
	claim := stint.Claim{Subject: "a", Limits: []stint.Limit{stint.PerMinute(9)}, Cost: 1}
	return &charged{Charge: driver.NewCharge([]stint.Claim{claim}, driver.ChargeData{ID: 7, At: 8, Generation: 9})}
}

func TestSharedKeys(t *testing.T) {
	for name, store := range map[string]driver.Keeper{"memory": guardtest.Memory(t),
		"redis": guardtest.Redis(t, redisstore.Config{URL: redistest.Start(t).URL()})} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			a, b := startProcess(store), startProcess(store)
			opens := func(what string, p *process, text string, want error) {
				t.Helper()
				if _, err := p.open(ctx, text); err != want {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
			text := a.textOf(ctx, storedCharge())
			opens("another process", b, text, nil)
			opens("after a restart", startProcess(store), text, nil)

			// What a process charges without the store is signed with its own key.
			c := startProcess(store)
			c.store.gone.Store(true)
			fallback := storedCharge()
			fallback.Data().Fallback = true
			own := c.textOf(ctx, fallback)
			opens("its own", c, own, nil)
			opens("of others, without the store", c, text, errKeysAway)
			opens("again, before the next read", c, text, errKeysAway)
			b.pass(keysPause)
			opens("of a process without the store", b, own, errNotSigned)
			c.store.gone.Store(false)
			c.pass(keysPause)
			opens("of others, with the store", c, text, nil)
			opens("its own, later", c, own, nil)
			if s := c.signer(ctx, true); s == &c.own {
				t.Error("signs with its own key although the store is there")
			}

			// Keys that were read are used while the store is away.
			b.store.gone.Store(true)
			b.pass(time.Hour)
			opens("known, without the store", b, text, nil)
			b.turn <- struct{}{} // when the table has been read in the background
			<-b.turn
			b.store.gone.Store(false)

			// A new period has a new key, and the old one is still accepted.
			a.pass(keyPeriod)
			before := *a.ring.Load().newest
			a.refresh(ctx)
			if *a.ring.Load().newest == before {
				t.Error("the key is not renewed")
			}
			renewed := a.textOf(ctx, storedCharge())
			opens("of the last period", a, text, nil)
			b.pass(keysPause)
			opens("of a key that is new", b, renewed, nil)
			for range oldKeys + 1 {
				a.pass(keyPeriod)
				a.refresh(ctx)
			}
			if n := len(a.ring.Load().shared); n != oldKeys+1 {
				t.Errorf("%d keys are kept", n)
			}
			opens("of a key that is too old", a, text, errNotSigned)
		})
	}
}

// If the table is deleted, every process refuses what was signed until then.
func TestKeysDeleted(t *testing.T) {
	redis := redistest.Start(t)
	store := guardtest.Redis(t, redisstore.Config{URL: redis.URL()})
	ctx := t.Context()
	a, b := startProcess(store), startProcess(store)
	text := a.textOf(ctx, storedCharge())
	if _, err := b.open(ctx, text); err != nil {
		t.Fatal(err)
	}
	redis.CLI(t, "DEL", "stint:table:{charge-keys}")
	for _, p := range []*process{a, b} {
		testkit.Eventually(t, "the old key is refused", func() bool {
			p.pass(keysAge)
			_, err := p.open(ctx, text)
			return err == errNotSigned
		})
	}
	b.pass(keysPause)
	if _, err := b.open(ctx, a.textOf(ctx, storedCharge())); err != nil {
		t.Errorf("they do not agree on a new key: %v", err)
	}
}

// The largest charge that a request can make fits into the body that amends it.
func TestLargestCharge(t *testing.T) {
	long := strings.Repeat("x", maxKey)
	c := charged{Charge: driver.NewCharge(nil, driver.ChargeData{ID: 1<<64 - 1, At: stint.MaxUnits, RequestID: long,
		IDLife: stint.MaxWindow, Hold: stint.MaxHold})}
	total, all := 0, []stint.Claim(nil)
	for i := range stint.MaxClaims {
		claim := stint.Claim{Subject: long, Scope: long, Cost: stint.MaxUnits, Costs: stint.Costs{}}
		for k := 0; k < stint.MaxTotal/stint.MaxClaims; k++ {
			total++
			name := strings.Repeat("n", 63) + string(rune('a'+k))
			limit := stint.Per(2_848_346*int64(stint.MaxWindow.Seconds()), stint.MaxWindow).BurstTimes(100)
			claim.Limits = append(claim.Limits, limit.WithName(name))
			claim.Costs[name] = stint.MaxUnits
		}
		if i > 0 {
			claim.Subject = long[1:] + string(rune('a'+i))
		}
		all = append(all, claim)
	}
	c.SetClaims(all)
	if total != stint.MaxTotal {
		t.Fatalf("%d limits", total)
	}
	for i := range total {
		contract.SetGeneration(&c.Charge, i, 1<<32-1) // each limit has a name, and so a state of its own
	}
	ctx, s := t.Context(), newKeys(nil, slog.Default())
	text := s.textOf(ctx, &c)
	if len(text) > maxCharge {
		t.Errorf("%d bytes, want at most %d", len(text), maxCharge)
	}
	if _, err := s.open(ctx, text); err != nil {
		t.Error(err)
	}
}
