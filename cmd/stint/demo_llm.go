package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/stint-limiter/stint/examples/llm/model"
	"github.com/stint-limiter/stint/server"
)

const (
	// tokenPause is the time that the demo's model takes for each token.
	tokenPause = 5 * time.Millisecond
	// storyTokens is the average number of tokens in a story that a caller requests.
	storyTokens = 400
)

func (d *demo) llmGuide(s *system) []byte {
	dashboard, flags := "http://"+d.server.Addr(server.Admin).String(), ""
	if dashboard != localAdmin {
		flags = " --server " + dashboard
	}
	return fmt.Appendf(nil, `Dashboard  %[1]s/
Gateway    %[2]s/
Limits     %[3]s   change them while it runs

Try it from another terminal. You play the proxy that checks keys and identifies their owners:

  curl -i %[2]s/v1/chat/completions -H 'Authorization: Bearer mine' \
    -H 'X-Org: you' -H 'X-Team: yours' -H 'X-User-ID: you' \
    -d '{"model": "gpt-4o", "stream": true, "max_tokens": 40, "messages": [{"role": "user", "content": "Hello"}]}'
  %[4]s inspect org:you --policy org%[5]s
  %[4]s top%[5]s
  %[4]s tail%[5]s

Press Ctrl-C to stop.
`, dashboard, d.gateway, d.policies, s.Program, flags)
}

// llmTraffic makes callers stream stories until the context ends. Together, the callers request
// rate*1000 tokens a minute.
func llmTraffic(ctx context.Context, gateway string, rate int) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: trafficWorkers}}
	defer client.CloseIdleConnections()
	every := time.Minute / time.Duration(max(rate*1000/storyTokens, 1))
	var work sync.WaitGroup
	defer work.Wait()
	for ctx.Err() == nil {
		work.Go(func() {
			// Ignore the result: the dashboard shows it.
			_, _ = someCaller().Ask(ctx, client, gateway, 1+rand.IntN(2*storyTokens))
		})
		pause(ctx, every)
	}
}

// someCaller returns a random caller. Callers of the organization acme exceed their limits.
func someCaller() model.Caller {
	org := pick("acme", "acme", "acme", "globex", "initech")
	team := org + "-" + pick("search", "ads")
	user := someone(team, 3)
	return model.Caller{Org: org, Team: team, User: user, Key: someone(user, 2)}
}
