package policy_test

import (
	"context"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// hangUp is the content of a request whose client hangs up instead of sending it.
type hangUp context.CancelFunc

func (h hangUp) Body(int64) ([]byte, int64) { return nil, 0 }

func (h hangUp) Digest() string {
	h()
	return ""
}

// attentive is a store that does not decide for those who have gone away.
type attentive struct{ stint.Store }

func (a attentive) Take(ctx context.Context, r stint.Request) (stint.Decision, error) {
	if err := ctx.Err(); err != nil {
		return stint.Decision{}, err
	}
	return a.Store.Take(ctx, r)
}

// A client that hangs up while its body is waited for is charged.
func TestContentThatDoesNotArrive(t *testing.T) {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	g := guardOver(t, attentive{store}, `
tiers: [{name: all, identity: ip, limits: 1/1h}]
policies: [{name: click, match: {path: /}, request_id: {derive: 2s}}]
`, policy.GuardConfig{})
	for i, want := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		var v policy.Verdict
		err := g.Decide(ctx, &policy.Input{Method: "POST", Path: "/", Content: hangUp(cancel)}, &v)
		if err != nil || v.Decision.Allowed != want {
			t.Errorf("%d: got %t and %v, want %t", i, v.Decision.Allowed, err, want)
		}
	}
}
