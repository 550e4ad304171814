package clientip

import "testing"

func TestNamesLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8080": true, "127.0.0.1": true, "127.0.0.1:8080": true, "[::1]": true,
		"[::1]:8080":    true,
		"10.0.0.5:8080": true,
		"":              false, "example.com": false, "example.com:8080": false, "localhost.example.com": false,
		"127.0.0.1.example.com": false, "stint": false, "[localhost.example.com]": false,
	} {
		if got := NamesLocal(host); got != want {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
}
