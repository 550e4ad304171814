package messages

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
