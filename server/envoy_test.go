package server

import (
	"path/filepath"
	"testing"

	"github.com/stint-limiter/stint/internal/eventually"
)

// TestEnvoyMerge has two files configure one domain if that is wanted, at the start and when they
// change.
func TestEnvoyMerge(t *testing.T) {
	c := everywhere(t)
	more := filepath.Join(c.Envoy.Rules, "more.yaml")
	put(t, more, "domain: test\ndescriptors: [{key: guest, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")
	if _, err := New(c); err == nil {
		t.Error("two files with one domain: no error")
	}
	c.Envoy.MergeDomains = true
	r := start(t, c)
	limits := func() string {
		_, body := r.get(Admin, "/rlconfig", "")
		return body
	}
	const user, rest = "test.user: unit=HOUR requests_per_unit=3", ", shadow_mode: false, quota_mode: false\n"
	if got, want := limits(), "test.guest: unit=HOUR requests_per_unit=1"+rest+user+rest; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	put(t, more, "domain: test\ndescriptors: [{key: guest, rate_limit: {unit: hour, requests_per_unit: 2}}]\n")
	eventually.True(t, "the new rules",
		func() bool { return limits() == "test.guest: unit=HOUR requests_per_unit=2"+rest+user+rest })
}
