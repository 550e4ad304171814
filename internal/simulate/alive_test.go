package simulate

import (
	"math/rand/v2"
	"testing"
)

// TestAlive compares with a slow count.
func TestAlive(t *testing.T) {
	const second = 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	lives := []int64{second / 2, 60 * second, 3600 * second, 86_400 * second, 400 * 86_400 * second}
	pauses := []int64{0, 1, second, 70 * second, 2 * 86_400 * second}
	var a alive
	subjects := make([]subject, 50)
	expires := make([]int64, len(subjects))
	now, most := int64(1_700_000_000*second), int64(0)
	for range 5000 {
		now += pauses[random.IntN(len(pauses))] * random.Int64N(100) / 100
		a.advance(now)
		i := random.IntN(len(subjects))
		until := now + lives[random.IntN(len(lives))]*(1+random.Int64N(100))/100
		a.charge(&subjects[i], until, now)
		expires[i] = max(expires[i], until)
		want := int64(0)
		for _, at := range expires {
			if at > now {
				want++
			}
		}
		most = max(most, want)
		if got := int64(len(a.expiries)); got != want {
			t.Fatalf("%d subjects, want %d", got, want)
		}
	}
	if a.most != most {
		t.Errorf("the most is %d, want %d", a.most, most)
	}
}
