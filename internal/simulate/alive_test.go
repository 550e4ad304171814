package simulate

import (
	"math/rand/v2"
	"testing"
)

// TestAlive compares with a slow count: of subjects that have expired by now, some may still be counted
// for a second, or for a 128th of the time that they had left.
func TestAlive(t *testing.T) {
	type key struct {
		expires expiry
		set, at int64
		held    bool
	}
	const second = 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	lives := []int64{second / 2, 60 * second, 3600 * second, 86_400 * second, 400 * 86_400 * second}
	pauses := []int64{0, 1, second, 70 * second, 2 * 86_400 * second}
	var a alive
	peak := int64(0)
	keys := make([]key, 50)
	now := int64(1_700_000_000 * second)
	for range 5000 {
		now += pauses[random.IntN(len(pauses))] * random.Int64N(100) / 100
		a.advance(now)
		k := &keys[random.IntN(len(keys))]
		k.set, k.at, k.held = now, now+lives[random.IntN(len(lives))]*(1+random.Int64N(100))/100, true
		k.expires = a.replace(k.expires, k.at, now)
		peak = max(peak, a.now)
		var least, most int64
		for i := range keys {
			if k := &keys[i]; k.held && k.at > now {
				least++
				most++
			} else if k.held && k.at+max(second, (k.at-k.set)/128) >= now {
				most++
			}
		}
		if n := a.now; n < least || n > most {
			t.Fatalf("%d subjects, want %d to %d", n, least, most)
		}
	}
	if a.most != peak {
		t.Errorf("the most is %d, want %d", a.most, peak)
	}
}
