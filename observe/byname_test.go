package observe

import (
	"strconv"
	"testing"
)

func TestByNameIsBounded(t *testing.T) {
	type thing struct{ name string }
	n := newByName(anyOther, func(name string) *thing { return &thing{name} })
	first := n.get("0")
	for i := range 3 * maxSeries {
		n.get(strconv.Itoa(i))
	}
	if got := len(n.all()); got != maxSeries+1 {
		t.Errorf("%d things, want %d and one for the rest", got, maxSeries)
	}
	if got := n.get("0"); got != first || n.all()[0] != first {
		t.Errorf("the first is now %q", got.name)
	}
	if got := n.get("a stranger").name; got != other {
		t.Errorf("a stranger is counted as %q, want %q", got, other)
	}
}
