package syntax

import "testing"

func TestWrongWebhook(t *testing.T) {
	for _, good := range []string{"https://example.com", "https://example.com/a?token=b", "http://localhost:9000/a",
		"http://127.0.0.1", "http://[::1]:80/"} {
		if wrong := WrongWebhook(good); wrong != "" {
			t.Errorf("%s: %s", good, wrong)
		}
	}
	for _, bad := range []string{"", "example.com", "ftp://example.com", "https://", "http://example.com",
		"http://localhost.example.com", "http://10.0.0.1", "http://0.0.0.0", "://"} {
		if WrongWebhook(bad) == "" {
			t.Errorf("%q: nothing is wrong", bad)
		}
	}
}
