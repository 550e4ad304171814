package settled

import (
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

func claim(subject, scope string) stint.Claim {
	return stint.Claim{Subject: subject, Scope: scope, Limits: []stint.Limit{stint.PerHour(1)}, Cost: 1}
}

func TestSetTellsChargesAndClaimsApart(t *testing.T) {
	var s Set
	ab, a := claim("a", "b"), claim("ab", "")
	if s.Has(1, &ab) {
		t.Error("an empty set has a claim")
	}
	for range 2 {
		s.Add(1, &ab)
	}
	if !s.Has(1, &ab) || s.Has(2, &ab) || s.Has(1, &a) {
		t.Error("want the claim of that charge and no other")
	}
	if len(s.order) != 1 {
		t.Errorf("%d are remembered, want 1", len(s.order))
	}
}

func TestOldestAreForgotten(t *testing.T) {
	var s Set
	c := claim("a", "")
	const more = 100
	for i := range uint64(stint.MaxOwnSettled + more) {
		s.Add(i, &c)
	}
	for i, want := range map[uint64]bool{0: false, more - 1: false, more: true, stint.MaxOwnSettled + more - 1: true} {
		if got := s.Has(i, &c); got != want {
			t.Errorf("charge %d is known: %v, want %v", i, got, want)
		}
	}
	if len(s.known) != stint.MaxOwnSettled || len(s.order) != stint.MaxOwnSettled {
		t.Errorf("%d and %d are remembered, want %d", len(s.known), len(s.order), stint.MaxOwnSettled)
	}
}

func TestOpenIsWhatIsNotSettled(t *testing.T) {
	charge := stint.Charge{ID: 7, At: 1, Generation: 10, Claim: claim("a", ""), Rest: &stint.Rest{
		RequestID: "r", IDLife: time.Hour, Generations: []uint32{11, 12}, And: []stint.Claim{claim("b", ""), claim("c", "")}}}
	var s Set
	if open := s.Open(charge); open.Rest != charge.Rest {
		t.Error("nothing is settled, and yet not the whole charge is open")
	}
	s.Add(7, &charge.Rest.And[0])
	open := s.Open(charge)
	if and := open.And(); open.Claim.Subject != "a" || len(and) != 1 || and[0].Subject != "c" || open.RequestID() != "r" || open.GenerationAt(1) != 12 {
		t.Errorf("open is %+v, want the claims of a and c", open)
	}
	s.AddAll(&open)
	if open := s.Open(charge); open.ID != 0 {
		t.Errorf("open is %+v, want nothing", open)
	}
}

func TestSetIsSafeForConcurrentUse(t *testing.T) {
	var s Set
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
