package config_test

import (
	"fmt"

	"github.com/stint-limiter/stint/config"
)

// All mistakes are told at once, each with its place and what would be right.
func ExampleParse() {
	_, err := config.Parse("stint.yaml", []byte(`
tiers:
  - name: pro
    match: {claim: {plan: pro}}
    identity: usr
    limits: [100/1m burst 3x, 2000/1w]
  - name: anonymous
    identity: ip
    limit: 10/1m
policies:
  - name: export
    match: {path: /export}
    rollout: 25
    limits: {anon: 1/1m, pro: 10/1m}
`))
	fmt.Println(err)
	// Output:
	// stint.yaml:4: warning: tiers[0].match.claim.plan: no header sets the claim "plan"; want one under claims, or claims: {plan: ""} if the application passes it
	// stint.yaml:5: tiers[0].identity: no identity "usr"; there is everyone, ip or user (did you mean "user"?)
	// stint.yaml:6: tiers[0].limits[1]: "2000/1w": window "1w": want a duration such as "1s", "1m30s", "1h" or "1d"
	// stint.yaml:9: tiers[1].limit: unknown key (did you mean "limits"?)
	// stint.yaml:13: policies[0].rollout: want a percentage from 0% to 100%; got "25": write 25%
	// stint.yaml:14: policies[0].limits.anon: no tier "anon"; there is default, pro or anonymous
}
