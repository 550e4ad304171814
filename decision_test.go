package stint_test

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestNothingDone checks for which kinds of failure the store has certainly not executed the call.
func TestNothingDone(t *testing.T) {
	nothing := map[stint.StoreErrorKind]bool{
		stint.KindAuth: true, stint.KindFull: true, stint.KindReadOnly: true, stint.KindBusy: true,
		stint.KindMigrating: true, stint.KindRefused: true,
		stint.KindTimeout: false, stint.KindUnreachable: false, stint.KindReply: false, stint.KindOther: false,
	}
	for _, kind := range errkind.Kinds {
		want, ok := nothing[kind]
		if got := kind.NothingDone(); got != want || !ok {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
	}
	if stint.StoreErrorKind("").NothingDone() {
		t.Error("a failure without a kind may have done anything")
	}
}

// TestOutweighs: the limit that denies for the longest comes first, then the one that admits the
// fewest further requests of the same cost, then the one that has used a larger share of its
// capacity.
func TestOutweighs(t *testing.T) {
	state := func(limit string, used, cost int64) stint.State {
		l := testkit.Must(stint.ParseLimit(limit))(t)
		return stint.State{Limit: &l, Usage: stint.Usage{Used: used}, Cost: cost}
	}
	denying := func(s stint.State, d time.Duration) stint.State {
		s.RetryAfter = d
		return s
	}
	for _, c := range []struct {
		what       string
		more, less stint.State
	}{
		{"denies for longer", denying(state("10/1m", 10, 1), 2), denying(state("5/1m", 5, 1), 1)},
		{"denies forever", denying(state("10/1m", 10, 1), stint.Never), denying(state("5/1m", 5, 1), time.Hour)},
		{"denies", denying(state("1000/1h", 0, 1001), 1), state("1/1m", 1, 1)},
		{"fewer are left", state("10/1m", 8, 1), state("100/1h", 60, 1)},
		{"500 units are 10 requests", state("1000/1h", 500, 50), state("60/1m", 2, 1)},
		{"500 units are 500 requests", state("60/1m", 2, 1), state("1000/1h", 500, 1)},
		{"as many are left, of less", state("10/1m", 8, 1), state("3/1h", 1, 1)},
		{"a cost of 0 counts as 1", state("10/1m", 8, 0), state("100/1h", 60, 1)},
		{"a place is one whatever the cost", state("100/1h", 60, 10), state("10/30s concurrency", 5, 10)},
		{"numbers as large as they come", state("9007199254740992/1m", 1<<53, 1), state("9007199254740991/1m", 1, 1)},
	} {
		if !c.more.Outweighs(c.less) || c.less.Outweighs(c.more) {
			t.Errorf("%s: %+v does not outweigh %+v, or the other way around", c.what, c.more, c.less)
		}
	}
	if s := state("10/1m", 3, 1); s.Outweighs(s) {
		t.Error("a state outweighs itself")
	}
	none, used := stint.State{}, stint.State{Usage: stint.Usage{Used: 1}} // states without a limit
	if none.Remaining() != 0 || none.Outweighs(used) || used.Outweighs(none) {
		t.Errorf("the zero state has %d left", none.Remaining())
	}
}
