package simulate

import (
	"encoding/json"
	"testing"
	"time"
)

// TestDuration: a duration is seconds in JSON.
func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "0.000000001", 290 * time.Millisecond: "0.29", 1_234_567_891: "1.234567891",
		46*time.Minute + 35_000_001: "2760.035000001", 366 * 24 * time.Hour: "31622400",
	} {
		if got, err := json.Marshal(Duration(d)); err != nil || string(got) != want {
			t.Errorf("%v: got %s, %v, want %s", d, got, err, want)
		}
	}
}
