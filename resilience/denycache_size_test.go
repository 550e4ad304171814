package resilience

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/eventually"
	"github.com/stint-limiter/stint/memorystore"
)

// deniesAll is a store that denies every subject, for as long as its name says.
type deniesAll struct{ calls int }

func (s *deniesAll) Take(_ context.Context, r stint.Request) (stint.Decision, error) {
	s.calls++
	n, _ := strconv.Atoi(r.Claims[0].Subject)
	d := stint.Decision{RetryAfter: time.Hour + time.Duration(n)*time.Second, Charge: contract.ChargeOf(&r)}
	d.MakeUsages(1)[0] = stint.Usage{Used: int64(n), RetryAfter: d.RetryAfter, ResetAfter: d.RetryAfter}
	return d, nil
}

func (s *deniesAll) Amend(context.Context, stint.Charge, stint.Amendment) (stint.Amended, error) {
	return stint.Amended{}, nil
}

func (s *deniesAll) Command(context.Context, stint.Command) error { return nil }

// F26: denied keys take no more room than the table has, however many they are, and each is told
// its own. Package faults measures a million.
func TestDenyCacheManyKeys(t *testing.T) {
	const keys, entries = 200_000, 1 << 14
	store := &deniesAll{}
	c := newDenyCache(bottom{store}, Config{Denials: entries - 100}.withDefaults())
	c.clock = func() time.Duration { return 0 }
	limits := []stint.Limit{stint.PerDay(1)}
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for n := range keys {
		r := ask(strconv.Itoa(n), 1, limits...)
		for range 1 + n%8/7 { // some ask again
			d, _ := c.Take(t.Context(), r)
			if want := time.Hour + time.Duration(n)*time.Second; d.Allowed || d.RetryAfter != want ||
				d.Usages()[0].Used != int64(n) || d.Key() != r.Claims[0].Subject {
				t.Fatalf("key %d: retry-after %v, used %d, key %s", n, d.RetryAfter, d.Usages()[0].Used, d.Key())
			}
		}
	}
	if store.calls != keys {
		t.Errorf("the store was asked %d times about %d keys, want once for each", store.calls, keys)
	}
	if held := c.held(); held != entries {
		t.Errorf("%d denials are held, want a full table of %d", held, entries)
	}
	if grown := int64(memory() - before); grown > entries*256 {
		t.Errorf("grown by %d bytes, want at most 256 for each of %d entries", grown, entries)
	}
	runtime.KeepAlive(c)
}

// A denial takes the place of an older one of the same key, and keeps nothing of its request alive.
func TestDenyCacheHoldsLittle(t *testing.T) {
	c := newDenyCache(bottom{&deniesAll{}}, Config{}.withDefaults())
	var freed atomic.Int64
	const requests, keys = 100, 50
	for i := range requests {
		subject := strconv.Itoa(i % keys)
		limits := &[2]stint.Limit{stint.PerDay(1), stint.PerHour(1)}
		runtime.AddCleanup(limits, func(int) { freed.Add(1) }, 0)
		c.Take(t.Context(), ask(subject, 1, limits[:]...))
		c.drop(subject)
	}
	if held := c.held(); held != keys {
		t.Errorf("%d denials of %d keys are held", held, keys)
	}
	eventually.True(t, "all requests are let go", func() bool {
		runtime.GC()
		return freed.Load() >= requests-1 // the last one may still be on the stack
	})
	runtime.KeepAlive(c)
}

func TestDenyCacheTableSizes(t *testing.T) {
	for entries, want := range map[int]int{-1: 1 << 16, 0: 1 << 16, 1: 4, 5: 8, 64: 64, 65: 128} {
		c := newDenyCache(bottom{&deniesAll{}}, Config{Denials: entries}.withDefaults())
		if room := c.room(); room != want {
			t.Errorf("Entries %d: room for %d, want %d", entries, room, want)
		}
	}
}

// Callers in parallel fill, are denied, refund and are let in again, over a table that is too small
// for them. Whoever had something refunded finds the room at once.
func TestDenyCacheInParallel(t *testing.T) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c := newDenyCache(bottom{store}, Config{Denials: 8, Observer: ignore}.withDefaults())
	ctx, limits := t.Context(), []stint.Limit{stint.PerHour(1)}
	var group, noise sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		noise.Go(func() { // they deny each other's subjects, and drop
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				c.Take(ctx, ask(fmt.Sprint(i%8), 2, limits...))
				if i%1000 == 0 {
					c.drop("")
				}
				runtime.Gosched()
			}
		})
	}
	for n := range 8 {
		group.Go(func() {
			r := ask(fmt.Sprint(n), 1, limits...)
			for range 1000 {
				d, err := c.Take(ctx, r)
				if err != nil || !d.Allowed {
					t.Errorf("subject %d: denied after its refund: %v", n, err)
					return
				}
				for range 3 {
					if d, err := c.Take(ctx, r); err != nil || d.Allowed || d.RetryAfter <= 0 {
						t.Errorf("subject %d: allowed is %v, retry-after %v, error %v", n, d.Allowed, d.RetryAfter, err)
						return
					}
				}
				if ok, err := c.Amend(ctx, d.Charge, stint.Amendment{}); err != nil || !ok.Changed {
					t.Errorf("subject %d: refund: %v, %v", n, ok, err)
					return
				}
			}
		})
	}
	group.Wait()
	close(stop)
	noise.Wait()
}

func TestDenyCacheHitAllocatesNothing(t *testing.T) {
	c := newDenyCache(bottom{&deniesAll{}}, Config{}.withDefaults())
	c.clock = func() time.Duration { return 0 }
	r := ask("1", 1, stint.PerMinute(1), stint.PerHour(1), stint.PerDay(1))
	if n := testing.AllocsPerRun(100, func() { c.Take(context.Background(), r) }); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}

func benchDenials(b *testing.B, cfg Config, limits ...stint.Option) *stint.Limiter {
	c := newDenyCache(bottom{&deniesAll{}}, cfg.withDefaults())
	c.clock = nil
	lim, err := stint.New(c.stack(), limits...)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return lim
}

func BenchmarkDenyCacheHit(b *testing.B) {
	ctx := context.Background()
	three := []stint.Option{stint.PerMinute(1), stint.PerHour(1), stint.PerDay(1)}
	hit := func(cfg Config, limits ...stint.Option) func(b *testing.B) {
		return func(b *testing.B) {
			lim := benchDenials(b, cfg, limits...)
			for b.Loop() {
				lim.Allow(ctx, "12345678")
			}
		}
	}
	b.Run("limits=1", hit(Config{}, three[:1]...))
	b.Run("limits=3", hit(Config{}, three...))
	b.Run("observed", hit(Config{Observer: ignore}, three[:1]...))
	b.Run("parallel", func(b *testing.B) {
		lim := benchDenials(b, Config{}, three[:1]...)
		lim.Allow(ctx, "12345678")
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				lim.Allow(ctx, "12345678")
			}
		})
	})
	b.Run("keys=50000", func(b *testing.B) { // most of them in nobody's cache lines
		lim := benchDenials(b, Config{}, three[:1]...)
		keys := manyKeys(50_000)
		for i := 0; b.Loop(); i++ {
			lim.Allow(ctx, keys[i%len(keys)])
		}
	})
}

// A miss of a full table, over a store that costs nothing but allows.
func BenchmarkDenyCacheMiss(b *testing.B) {
	store := &deniesAll{}
	c := newDenyCache(bottom{&mostlyAllows{store}}, Config{}.withDefaults())
	lim, err := stint.New(c.stack(), stint.PerDay(1))
	if err != nil {
		b.Fatal(err)
	}
	ctx, keys := context.Background(), manyKeys(200_000)
	for _, k := range keys {
		lim.AllowN(ctx, k, 2)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		lim.Allow(ctx, keys[i%len(keys)])
	}
}

// mostlyAllows denies only costs above one.
type mostlyAllows struct{ *deniesAll }

func (s *mostlyAllows) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if r.Claims[0].Cost > 1 {
		return s.deniesAll.Take(ctx, r)
	}
	return stint.Decision{Allowed: true}, nil
}

func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(10_000_000 + i)
	}
	return keys
}
