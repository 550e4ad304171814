package contract

import (
	"testing"

	"github.com/stint-limiter/stint"
)

func TestOldestAreForgotten(t *testing.T) {
	var s SettledSet
	c := stint.Claim{Subject: "a", Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}
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
