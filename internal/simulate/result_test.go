package simulate

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestDuration: a duration survives JSON.
func TestDuration(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 1001, 7*time.Minute + 1_687_106*time.Microsecond, 100 * time.Second,
		290 * time.Millisecond, 1_234_567_891, 46*time.Minute + 35_000_001,
		366 * 24 * time.Hour} {
		text, err := json.Marshal(Duration(d))
		var got Duration
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if _, digits, _ := strings.Cut(string(text), "."); err != nil || time.Duration(got) != d || len(digits) > 9 {
			t.Errorf("%v: got %v from %s, %v", d, got, text, err)
		}
	}
}
