package stint_test

import (
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/errkind"
)

// TestNothingDone: only after failures whose call the store did not execute is a repeat safe.
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
