package nearest

import "testing"

func TestHint(t *testing.T) {
	known := []string{"limits", "identity", "client_ip", "ip", "url", "max_wait", "per"}
	tests := []struct{ got, want string }{
		{"limit", "limits"},
		{"Limits", "limits"},
		{"limtis", "limits"},
		{"lmits", "limits"},
		{"identiy", "identity"},
		{"clientIP", "client_ip"},
		{"client-ip", "client_ip"},
		{"CLIENT_IP", "client_ip"},
		{"maxwait", "max_wait"},
		{"uri", "url"},
		{"ipp", "ip"},
		{"rate", ""},
		{"colour", ""},
		{"", ""},
		{"x", ""},
		{"límits", "limits"},
	}
	for _, test := range tests {
		want := ""
		if test.want != "" {
			want = ` (did you mean "` + test.want + `"?)`
		}
		if got := Hint(test.got, known); got != want {
			t.Errorf("%q: got %q, want %q", test.got, got, want)
		}
	}
	if got := Hint("limits", nil); got != "" {
		t.Errorf("of nothing known: got %q", got)
	}
}

func TestSlips(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "abcd", 1}, {"abc", "axc", 1}, {"abcd", "badc", 2},
		{"kitten", "sitting", 3},
	}
	for _, test := range tests {
		if got := slips(test.a, test.b); got != test.want {
			t.Errorf("%q to %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
