package contract_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
)

func ban(subject string, until int64) driver.Banned {
	return driver.Banned{Subject: subject, BanState: driver.BanState{Until: time.Unix(until, 0)}}
}

func TestTheLongestAreKept(t *testing.T) {
	const all, most = 10_000, 7
	for _, order := range [][]int{rand.Perm(all), rand.Perm(all)} {
		l := contract.NewBanList(most)
		for _, i := range order {
			l.Add(ban(fmt.Sprint("user:", i), int64(i)))
			l.Add(ban(fmt.Sprint("user:", i), int64(i))) // seen twice
		}
		got := l.Sorted()
		if len(got) != most {
			t.Fatalf("%d bans, want %d", len(got), most)
		}
		for i, b := range got {
			if want := fmt.Sprint("user:", all-1-i); b.Subject != want {
				t.Errorf("number %d is %s, want %s", i, b.Subject, want)
			}
		}
	}
}

func TestEqualOnesAreOrderedBySubject(t *testing.T) {
	l := contract.NewBanList(2)
	for _, subject := range []string{"c", "a", "b"} {
		l.Add(ban(subject, 1))
	}
	got := l.Sorted()
	if len(got) != 2 || got[0].Subject != "a" || got[1].Subject != "b" {
		t.Errorf("got %v, want a and b", got)
	}
}

func TestNoneIsAList(t *testing.T) {
	for _, most := range []int{0, -1} {
		l := contract.NewBanList(most)
		l.Add(ban("a", 1))
		if got := l.Sorted(); len(got) != 0 {
			t.Errorf("at most %d: got %v, want none", most, got)
		}
	}
}
