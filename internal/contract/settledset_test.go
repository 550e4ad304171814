package contract

import (
	"sync"
	"testing"

	"github.com/stint-limiter/stint"
)

func claim(subject, scope string) stint.Claim {
	return stint.Claim{Subject: subject, Scope: scope, Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}
}

func TestOldestAreForgotten(t *testing.T) {
	var s SettledSet
	c := claim("a", "")
	const more = 100
	for i := range uint64(MaxOwnSettled + more) {
		s.Add(i, &c)
	}
	for i, want := range map[uint64]bool{0: false, more - 1: false, more: true,
		MaxOwnSettled + more - 1: true} {
		if got := s.Has(i, &c); got != want {
			t.Errorf("charge %d is known: %v, want %v", i, got, want)
		}
	}
	if len(s.known) != MaxOwnSettled || len(s.order) != MaxOwnSettled {
		t.Errorf("%d and %d are remembered, want %d", len(s.known), len(s.order), MaxOwnSettled)
	}
}

func TestSetIsSafeForConcurrentUse(t *testing.T) {
	var s SettledSet
	var group sync.WaitGroup
	for g := range uint64(4) {
		group.Go(func() {
			c := claim("a", "")
			for i := range uint64(1000) {
				s.Add(g*1000+i, &c)
				if !s.Has(g*1000+i, &c) {
					t.Error("forgotten")
				}
			}
		})
	}
	group.Wait()
}
