package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestBanInAnOutage: a ban that is made while Redis is down applies in the process that was asked,
// and in the others when Redis is back. One that was lifted meanwhile does not.
func TestBanInAnOutage(t *testing.T) {
	redis := redistest.Start(t)
	shared := sharing(redis.URL())
	one, two := start(t, five, withToken(t), shared), start(t, five, withToken(t), shared)
	testkit.Eventually(t, "both decide", func() bool { return one.take("41") && two.take("41") })
	client := one.client(operator)
	redis.Kill()
	for _, user := range []string{"user:42", "user:43"} {
		who, err := client.Ban(t.Context(), control.Target{Subject: user}, time.Hour)
		if err != nil || !strings.Contains(who.Note, "this process keeps the ban") {
			t.Fatalf("got %+v, %v; want that it is kept", who, err)
		}
	}
	if one.take("42") {
		t.Error("the process that was asked allows the banned one")
	}
	_, _ = client.Unban(t.Context(), control.Target{Subject: "user:43"}) // the store is unavailable
	redis.Restart(t)
	other := two.client(operator)
	testkit.Eventually(t, "the other knows of it", func() bool {
		s, err := other.Subject(t.Context(), control.Target{Subject: "user:42"})
		return err == nil && !s.Ban.Until.IsZero() && !two.take("42")
	})
	s, err := other.Subject(t.Context(), control.Target{Subject: "user:43"})
	if err != nil || !s.Ban.Until.IsZero() {
		t.Errorf("got %+v, %v; want no ban", s.Ban, err)
	}
	one.log.Await(t, "sent a ban from an outage to the store")
}
