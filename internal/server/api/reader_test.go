package api

import "testing"

func TestInteger(t *testing.T) {
	for _, test := range []struct {
		number string
		want   int64
		ok     bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"0.0", 0, true}, {"0e9", 0, true}, {"7", 7, true}, {"-7", -7, true},
		{"1.0", 1, true},
		{"1e0", 1, true}, {"1E+2", 100, true}, {"100e-2", 1, true}, {"0.10e1", 1, true}, {"1.25e2", 125, true},
		{"1200", 1200, true},
		{"9007199254740992.0", 9007199254740992, true}, {"9223372036854775807", 9223372036854775807, true},
		{"1.5", 0, false}, {"1.00000000000000000001", 0, false}, {"9007199254740992.5", 0, false}, {"1e-1", 0, false},
		{"1e400", 0, false}, {"1e99999999999999999999", 0, false}, {"9223372036854775808", 0, false},
	} {
		if got, ok := integer(test.number); ok != test.ok || ok && got != test.want {
			t.Errorf("%s: got %d, %v, want %d, %v", test.number, got, ok, test.want, test.ok)
		}
	}
}
