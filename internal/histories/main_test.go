package histories

import (
	"os"
	"runtime/debug"
	"testing"
)

// A history leaves little behind, so a larger share of garbage costs no memory and saves time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
