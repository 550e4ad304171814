package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
	"github.com/stint-limiter/stint/bench/internal/process"
)

const (
	// mostOfPlain is the maximum CPU time of a gateway that counts tokens, relative to one that counts
	// nothing.
	mostOfPlain = 1.10

	streamEvents  = 1000
	streamCallers = 8

	streamEvent = `data: {"id":"chatcmpl-9x8y7z6w5v4u3t2s1r0q","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_ee1d74bde0","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"
	streamEnd   = `data: {"id":"chatcmpl-9x8y7z6w5v4u3t2s1r0q","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":1000,"total_tokens":1019,"prompt_tokens_details":{"cached_tokens":8}}}` + "\n\ndata: [DONE]\n\n"
	streamAsk   = `{"model":"gpt-4o","stream":true,"max_tokens":1000,"messages":[{"role":"user","content":"Tell me a story."}]}`
)

// runLLM measures how much it costs the gateway to count the tokens of streams.
func (p *programs) runLLM(ctx context.Context, s contest.Settings, r *contest.Report) {
	rack := process.NewRack()
	defer rack.Stop()
	gateways := []struct{ name, policies string }{
		{"without settling", ""},
		{"tokens settled", "policies: [{name: chat, match: {path: /**}, usage: {preset: openai}}]\n"},
	}
	r.Heading("Streams of a language model, CPU time of the gateway", fmt.Sprintf(
		"In ms for a response of %s events, each of which the model flushes separately; both gateways at the same time, %d streams each, in memory. "+
			"Models pause between events; without pauses, the gateway reads several at a time.", contest.Count(streamEvents), streamCallers))
	var rows [][]string
	for _, pace := range []time.Duration{time.Millisecond, 0} {
		upstream := startStreams(ctx, rack, pace)
		var running []*process.Process
		var addresses []string
		for _, g := range gateways {
			config := "client_ip: {trusted_proxies: loopback}\n" +
				"tiers: [{name: all, identity: ip, budget: 1000000000000/1d}]\n" + g.policies
			gateway := p.startGateway(ctx, rack, config, "memory", upstream)
			running, addresses = append(running, gateway), append(addresses, gateway.Address)
		}
		spent := make([]contest.Series, len(gateways))
		streams := contest.Pick(s, 4, 2)
		if pace == 0 {
			streams *= 16
		}
		for range s.Rounds {
			before := []time.Duration{running[0].CPU(), running[1].CPU()}
			drawStreams(ctx, addresses, streams)
			for i, b := range before {
				took := running[i].CPU() - b
				spent[i] = append(spent[i], float64(took.Microseconds())/1000/float64(streams*streamCallers))
			}
		}
		ratios := make([]contest.Series, len(gateways))
		for round, without := range spent[0] {
			for i := range gateways {
				ratios[i] = append(ratios[i], spent[i][round]/without)
			}
		}
		what := "without pauses"
		if pace > 0 {
			what = fmt.Sprintf("an event every %v", pace)
			r.AtMost(mostOfPlain, "×", "llm: CPU time of the gateway that settles tokens to one that does not").Judge(ratios[1].Median())
		}
		for i, g := range gateways {
			rows = append(rows, []string{what, g.name, fmt.Sprintf("%.2f", spent[i].Median()),
				fmt.Sprintf("%.2f", ratios[i].Median())})
		}
	}
	r.Table([]string{"", "", "ms a response", "× without"}, rows)
}

// drawStreams makes each caller of each address read the given number of streams.
func drawStreams(ctx context.Context, addresses []string, streams int) {
	transport := &http.Transport{MaxIdleConnsPerHost: streamCallers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var work sync.WaitGroup
	failures := make([]error, streamCallers*len(addresses))
	for i := range failures {
		work.Go(func() {
			for n := 0; n < streams && failures[i] == nil; n++ {
				failures[i] = drawStream(ctx, client, addresses[i%len(addresses)])
			}
		})
	}
	work.Wait()
	contest.OK(cmp.Or(failures...))
}

func drawStream(ctx context.Context, client *http.Client, address string) error {
	status, answer, err := send(ctx, client, http.MethodPost, "http://"+address+"/v1/chat/completions", streamAsk)
	want := streamEvents*len(streamEvent) + len(streamEnd)
	if err == nil && (status != http.StatusOK || len(answer) != want) {
		err = fmt.Errorf("got the status %d and %d bytes, want %d", status, len(answer), want)
	}
	return err
}

// startStreams starts a server that streams events like a language model, at the given pace.
func startStreams(ctx context.Context, rack *process.Rack, pace time.Duration) string {
	address := process.FreeAddress()
	rack.Start(ctx, address, nil, contest.Must(os.Executable()), bareCommand, "-http", address, "-stream",
		"-pace", pace.String())
	return address
}

// streamHandler responds to every request with a stream.
func streamHandler(pace time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		next := time.Now()
		for range streamEvents {
			if next = next.Add(pace); pace > 0 {
				time.Sleep(time.Until(next))
			}
			_, _ = io.WriteString(w, streamEvent)
			_ = control.Flush()
		}
		_, _ = io.WriteString(w, streamEnd)
	})
}
