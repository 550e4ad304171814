package callers_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stint-limiter/stint/internal/callers"
)

func TestCrossSite(t *testing.T) {
	for _, test := range []struct {
		method, site, mode, origin string
		cross, navigates           bool
	}{
		{"GET", "", "", "", false, false}, // no browser
		{"POST", "", "", "", false, false},
		{"GET", "same-origin", "cors", "", false, false},
		{"POST", "same-origin", "cors", "http://stint.example:6070", false, false},
		{"POST", "same-origin", "cors", "http://behind-a-proxy.example", false, false},
		{"GET", "none", "navigate", "", false, true},
		{"GET", "cross-site", "navigate", "", true, true},
		{"GET", "same-site", "navigate", "", true, true},
		{"POST", "cross-site", "navigate", "https://evil.example", true, false},
		{"GET", "cross-site", "no-cors", "", true, false},
		{"GET", "cross-site", "cors", "https://evil.example", true, false},
		{"GET", "same-site", "cors", "", true, false},
		// Browsers that do not say it, or not without TLS.
		{"POST", "", "", "http://stint.example:6070", false, false},
		{"POST", "", "", "http://stint.example:6071", true, false},
		{"GET", "", "", "https://evil.example", true, false},
		{"POST", "", "", "null", true, false},
	} {
		r := httptest.NewRequest(test.method, "http://stint.example:6070/", nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": test.site, "Sec-Fetch-Mode": test.mode,
			"Origin": test.origin} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if cross, navigates := callers.CrossSite(r), callers.Navigates(r); cross != test.cross ||
			navigates != test.navigates {
			t.Errorf("%+v: got %t, %t", test, cross, navigates)
		}
	}
}
