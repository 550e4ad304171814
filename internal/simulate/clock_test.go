package simulate

import (
	"testing"
	"time"
)

// TestNanoseconds: times outside the range of nanoseconds become its bounds.
func TestNanoseconds(t *testing.T) {
	for _, test := range []struct {
		text string
		want int64
	}{
		{"0001-01-01", 7}, {"0001-01-02", minTime}, {"1600-01-01", minTime},
		{"1970-01-02", 86400e9}, {"2263-01-01", maxTime}, {"9999-12-31", maxTime},
	} {
		at, err := time.Parse(time.DateOnly, test.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := nanoseconds(at, 7); got != test.want {
			t.Errorf("%s: got %d, want %d", test.text, got, test.want)
		}
	}
}
