package figures_test

import (
	"math"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/figures"
)

func TestLengths(t *testing.T) {
	const day = 24 * time.Hour
	for _, test := range []struct {
		d             time.Duration
		length, exact string
	}{
		{0, "0s", "0s"},
		{1500 * time.Nanosecond, "2µs", "1.5µs"},
		{850 * time.Millisecond, "850ms", "850ms"},
		{999_600 * time.Microsecond, "1s", "999.6ms"},
		{12_540 * time.Millisecond, "12.5s", "12.54s"},
		{59_970 * time.Millisecond, "1m", "59.97s"},
		{time.Minute, "1m", "1m"},
		{103 * time.Second, "1m43s", "1m43s"},
		{10 * time.Minute, "10m", "10m"},
		{time.Hour, "1h", "1h"},
		{time.Hour + 30*time.Second, "1h1m", "1h0m30s"},
		{20 * time.Hour, "20h", "20h"},
		{2*time.Hour + 5*time.Minute + time.Second, "2h5m", "2h5m1s"},
		{day - time.Second, "1d", "23h59m59s"},
		{2 * day, "2d", "48h"},
		{76 * time.Hour, "3d4h", "76h"},
		{-103 * time.Second, "-1m43s", "-1m43s"},
	} {
		if got := figures.Length(test.d); got != test.length {
			t.Errorf("%v: length %q, want %q", test.d, got, test.length)
		}
		if got := figures.Exact(test.d); got != test.exact {
			t.Errorf("%v: exact %q, want %q", test.d, got, test.exact)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "0.000000001", -10: "-0.00000001", 100 * time.Second: "100", -90 * time.Minute: "-5400",
		421_687_106 * time.Microsecond: "421.687106", math.MaxInt64: "9223372036.854775807",
		math.MinInt64: "-9223372036.854775808",
	} {
		if got := figures.Seconds(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, test := range []struct {
		share float64
		want  string
	}{
		{0, "░░░░"}, {-1, "░░░░"}, {math.NaN(), "░░░░"}, {0.0001, "█░░░"}, {0.5, "██░░"}, {0.9999, "███░"}, {1, "████"},
		{7, "████"}, {math.Inf(1), "████"},
	} {
		if got := figures.Bar(test.share, 4); got != test.want {
			t.Errorf("%g: got %q, want %q", test.share, got, test.want)
		}
	}
	if got := figures.Bar(0.5, 0); got != "" {
		t.Errorf("without a width: got %q", got)
	}
}

func TestHeights(t *testing.T) {
	for _, test := range []struct {
		numbers []int64
		want    string
	}{
		{nil, ""}, {[]int64{0, 0}, "  "}, {[]int64{0, 1, 0}, " █ "}, {[]int64{1, 2, 8, 1}, "▁▂█▁"},
		{[]int64{1, 1000}, "▁█"}, {[]int64{-1, 4, 2}, " █▄"},
		{[]int64{math.MaxInt64 - 1, math.MaxInt64}, "██"},
	} {
		if got := figures.Heights(test.numbers); got != test.want {
			t.Errorf("%d: got %q, want %q", test.numbers, got, test.want)
		}
	}
}
