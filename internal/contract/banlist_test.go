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
