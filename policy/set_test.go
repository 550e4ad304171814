package policy_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stint-limiter/stint/config"
)

func TestClaimFields(t *testing.T) {
	const tiers = "tiers: [{name: all, identity: ip, limits: 1/1s}]\n"
	tests := []struct {
		text string
		want []string
	}{
		{tiers, nil},
		{"client_ip: {trusted_proxies: loopback}\nclaims: {user: X-User-ID, plan: x-plan}\n" + tiers, []string{"X-Plan", "X-User-Id"}},
	}
	for _, test := range tests {
		conf, err := config.Parse("test.yaml", []byte(test.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Values(conf.Set.Spec().Claims)); !slices.Equal(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
