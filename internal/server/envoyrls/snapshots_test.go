package envoyrls_test

import (
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint/internal/server/envoyrls"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/internal/xdstest"
)

// TestSnapshots: what Envoy Gateway sends for its documented examples, and for those of AI Gateway,
// is acknowledged and limits what Envoy asks for then, as the documentation says.
func TestSnapshots(t *testing.T) {
	for _, snapshot := range xdstest.Snapshots(t) {
		t.Run(snapshot.Name, func(t *testing.T) {
			listen, address := xdstest.OnTCP(t)
			c := xdstest.New(t, listen)
			c.Start()
			defer c.Stop()
			f := follow(t, envoyrls.XDSConfig{Server: address})
			version := c.Send(snapshot.Rules...)
			testkit.Eventually(t, "the rules are acknowledged", func() bool { return c.Accepted(version) == 1 })
			for i, q := range snapshot.Questions {
				r := questionOf(q)
				allowed := 0
				for range q.Times {
					response, err := f.ShouldRateLimit(t.Context(), r)
					if err != nil {
						t.Fatal(err)
					}
					if response.GetOverallCode() == ok {
						allowed++
					}
				}
				if allowed != q.Allowed {
					t.Errorf("question %d: %d of %d allowed, want %d (%s)", i+1, allowed, q.Times, q.Allowed,
						snapshot.Source)
				}
			}
		})
	}
}

// questionOf returns what Envoy asks.
func questionOf(q xdstest.Question) *rlsv3.RateLimitRequest {
	r := &rlsv3.RateLimitRequest{}
	for _, entries := range q.Descriptors {
		one := ask(q.Domain, strings.Join(entries, ","))
		if r.Domain = q.Domain; q.Hits >= 0 {
			one.Descriptors[0].HitsAddend = wrapperspb.UInt64(uint64(q.Hits))
		}
		r.Descriptors = append(r.Descriptors, one.Descriptors...)
	}
	return r
}
