package memorystore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
)

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
