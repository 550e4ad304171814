package algorithm

import (
	"testing"

	"github.com/stint-limiter/stint"
)

func TestConcurrency(t *testing.T) {
	l := stint.AtOnce(2, s)
	p := Of(&l)
	var c Count
	var v View
	at := func(us int64) {
		v.Open(&c, &p, start+us, 0)
		v.ShortenPlaces()
	}
	want := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s is %d, want %d", what, got, want)
		}
	}
	at(0)
	v.TakePlace(1)
	at(400_000)
	v.TakePlace(2)
	want("used", v.Used(), 2)
	want("reset", v.Reset(), 1_000_000)
	want("wait", v.Earliest(start+400_000, 1)-start, 1_000_000)
	want("wait to look", v.Earliest(start+400_000, 0)-start, 400_000)
	at(500_000)
	if !v.ExtendPlace(1) || v.ExtendPlace(9) {
		t.Error("a holder could not extend, or a stranger could")
	}
	want("wait after a heartbeat", v.Earliest(start+500_000, 1)-start, 1_400_000)
	if !v.ReleasePlace(2) || v.ReleasePlace(2) {
		t.Error("settling to more, to nothing, and releasing twice went wrong")
	}
	want("used after release", v.Used(), 1)
	at(-3_000_000)
	want("reset after a step back", v.Reset(), 1_000_000)
	at(-2_000_000)
	want("used when expired", v.Used(), 0)
	if !c.Dead(&p, start) {
		t.Error("not dead when all have expired")
	}
}
