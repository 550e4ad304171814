package histories

import (
	"os"
	"runtime/debug"
	"testing"
)

// A history leaves little behind, so a larger share of garbage costs no memory and saves time. What
// a stack pools stays until the second collection, with the whole stack: without the limit, collections
// become rarer and rarer.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(2 << 30)
	}
	os.Exit(m.Run())
}
