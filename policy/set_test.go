package policy_test

import (
	"slices"
	"testing"

	"github.com/stint-limiter/stint/policy"
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
		set, err := policy.Parse("test.yaml", []byte(test.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := set.ClaimFields(); !slices.Equal(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
