// Package model is a fake language model: it streams words like OpenAI's chat completions. The
// package also has a configuration that limits its callers.
package model

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// YAML is the configuration, for config.Parse.
//
//go:embed stint.yaml
var YAML []byte

// New returns the model. In a stream, it pauses after each token. It generates half as many tokens
// as the request permits. Like OpenAI, it reports usage in streams only if asked to.
func New(pause time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		q := request{MaxTokens: 400}
		if err != nil || json.Unmarshal(body, &q) != nil || q.MaxTokens < 1 {
			http.Error(w, `{"error":{"message":"The request is not valid."}}`, http.StatusBadRequest)
			return
		}
		used := usage{Prompt: (len(body) + 3) / 4, Completion: (q.MaxTokens + 1) / 2}
		if !q.Stream {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"choices":[{"message":{"content":%q}}],"usage":%s}`,
				strings.Repeat("word ", used.Completion), used)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		for range used.Completion {
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n")
			if out.Flush() != nil {
				return
			}
			time.Sleep(pause)
		}
		if q.Options.IncludeUsage {
			fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":%s}\n\n", used)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
}

type request struct {
	Stream    bool `json:"stream"`
	MaxTokens int  `json:"max_tokens"`
	Options   struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type usage struct{ Prompt, Completion int }

func (u usage) String() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, u.Prompt, u.Completion,
		u.Prompt+u.Completion)
}

// Caller identifies the caller of the model, as a proxy that checks keys would.
type Caller struct{ Org, Team, User, Key string }

// Answer is the response to a caller.
type Answer struct {
	Status int
	// Policy names the policy that denied the call. Retry is the number of seconds until the next
	// attempt, or "" if waiting does not help.
	Policy, Retry string
}

// Ask requests a stream with at most the given number of tokens.
func (c Caller) Ask(ctx context.Context, client *http.Client, url string, tokens int) (Answer, error) {
	body := fmt.Sprintf(`{"model":"gpt-4o","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"Tell me a story."}]}`, tokens)
	r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for name, value := range map[string]string{"X-Org": c.Org, "X-Team": c.Team, "X-User-ID": c.User,
		"Authorization": "Bearer " + c.Key, "Content-Type": "application/json"} {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close() // runs after the body has been read to its end
	_, err = io.Copy(io.Discard, resp.Body)
	return Answer{resp.StatusCode, resp.Header.Get("X-RateLimit-Policy"), resp.Header.Get("Retry-After")}, err
}
