package memorystore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

// asked is how many requests a pattern has before it repeats.
const asked = 1 << 17

// BenchmarkAllow is the memory store behind a limiter. To compare it with its peers see the bench
// module.
func BenchmarkAllow(b *testing.B) {
	subjects := make([]string, 100_000)
	for i := range subjects {
		subjects[i] = fmt.Sprintf("user:%07d", i)
	}
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(len(subjects)-1))
	var hot, turn, skewed [asked]string
	for i := range asked {
		hot[i], turn[i], skewed[i] = subjects[0], subjects[i%len(subjects)], subjects[zipf.Uint64()]
	}
	for _, x := range []struct {
		name   string
		fill   int
		limits []stint.Option
	}{
		{"allow", 1, []stint.Option{stint.PerMinute(1e9)}},
		{"allow3", 1, []stint.Option{stint.PerMinute(1e9), stint.PerHour(1e9), stint.PerDay(1e9)}},
		{"bucket", 1, []stint.Option{stint.TokenBucket(1e9, 1e9, time.Minute)}},
		{"burst", 1, []stint.Option{stint.Limit{Max: 1e6, Burst: 1e8, Window: time.Minute}}},
		{"named", 1, []stint.Option{stint.PerMinute(1e9).WithName("login")}},
		{"deny", 100, []stint.Option{stint.PerDay(100)}},
	} {
		b.Run(x.name, func(b *testing.B) {
			s, err := memorystore.New(memorystore.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			lim, err := stint.New(s, x.limits...)
			if err != nil {
				b.Fatal(err)
			}
			for range x.fill {
				time.Sleep(2 * time.Microsecond)
				for _, subject := range subjects {
					lim.Allow(context.Background(), subject)
				}
			}
			for _, p := range []struct {
				name string
				keys *[asked]string
			}{{"hot", &hot}, {"turn", &turn}, {"zipf", &skewed}} {
				b.Run(p.name, func(b *testing.B) { serial(b, lim, p.keys) })
				b.Run(p.name+"-parallel", func(b *testing.B) { parallel(b, lim, p.keys) })
			}
		})
	}
}

// BenchmarkTake is the store asked for what Allow asks for, and for what it does not.
func BenchmarkTake(b *testing.B) {
	limits := []stint.Limit{stint.PerMinute(1e9), stint.PerHour(1e9), stint.PerDay(1e9)}
	one := []stint.Claim{{Subject: "user:0000001", Limits: limits[:1], Cost: 1}}
	for _, x := range []struct {
		name string
		r    stint.Request
	}{
		{"one", stint.Request{Claims: one}},
		{"peek", stint.Request{Claims: one, Mode: stint.ModePeek}},
		{"bans", stint.Request{Claims: one, Bans: &stint.BanPolicy{}}},
		{"three", stint.Request{Claims: []stint.Claim{{Subject: "user:0000001", Limits: limits, Cost: 1}}}},
		{"two subjects", stint.Request{Claims: append(one,
			stint.Claim{Subject: "org:01", Limits: limits[:1], Cost: 1, Shared: true})}},
	} {
		b.Run(x.name, func(b *testing.B) {
			s, err := memorystore.New(memorystore.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				s.Take(context.Background(), x.r)
			}
		})
	}
}

func serial(b *testing.B, lim *stint.Limiter, keys *[asked]string) {
	b.ReportAllocs()
	ctx, i := context.Background(), 0
	for b.Loop() {
		lim.Allow(ctx, keys[i%asked])
		i++
	}
}

func parallel(b *testing.B, lim *stint.Limiter, keys *[asked]string) {
	b.ReportAllocs()
	var start atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		ctx, i := context.Background(), int(start.Add(asked/3))
		for pb.Next() {
			lim.Allow(ctx, keys[i%asked])
			i++
		}
	})
}

// BenchmarkFlood is a store that is full, asked by subjects that it does not know. The bounds are
// so small that the subjects are forgotten by the time that they come again.
func BenchmarkFlood(b *testing.B) {
	const most = 20_000
	subject := func(i int) stint.Claim { return stint.Claim{Subject: fmt.Sprintf("user:%07d", i)} }
	for _, x := range []struct {
		name  string
		limit stint.Limit
		bytes int64
		claim func(i int) stint.Claim
	}{
		{"subjects", stint.PerHour(10), 0, subject},
		{"at their limit", stint.PerHour(1), 0, subject},
		{"scopes", stint.PerHour(10), 0, func(i int) stint.Claim {
			return stint.Claim{Subject: "everyone", Scope: fmt.Sprintf("thing:%07d", i)}
		}},
		{"long keys", stint.PerHour(10), 10 << 20, func(i int) stint.Claim {
			return stint.Claim{Subject: fmt.Sprintf("user:%07d:%s", i, strings.Repeat("x", 1000))}
		}},
	} {
		s, err := memorystore.New(memorystore.Config{MaxSubjects: most, MaxBytes: x.bytes})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		claims := make([]stint.Request, 8*most)
		for i := range claims {
			claims[i].Claims = []stint.Claim{x.claim(i)}
			claims[i].Claims[0].Limits, claims[i].Claims[0].Cost = []stint.Limit{x.limit}, 1
		}
		next := 0
		flood := func(n int) {
			for range n {
				if _, err := s.Take(context.Background(), claims[next]); err != nil {
					b.Fatal(err)
				}
				next = (next + 1) % len(claims)
			}
		}
		flood(2 * most)
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				flood(1)
			}
		})
	}
}
