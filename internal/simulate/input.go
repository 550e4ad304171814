package simulate

import (
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/internal/syntax"
	"github.com/stint-limiter/stint/internal/tokens"
	"github.com/stint-limiter/stint/policy"
)

// input converts records to the input of a guard. One input is reused for all records, to avoid
// allocations.
type input struct {
	in     policy.Input
	record *accesslog.Record
	values []string // values that Values has returned for this record

	usedUser bool // whether Claim has returned the user from the log
	known    tokens.Known
}

// of returns the input for a record. It is valid until the next call.
func (i *input) of(r *accesslog.Record) *policy.Input {
	i.record, i.values, i.usedUser = r, i.values[:0], false
	i.in = policy.Input{Method: r.Method, Host: r.Host, Path: r.Path, RawPath: r.RawPath, Peer: r.Client}
	i.known = tokens.Known{
		Used:  tokens.Counts{Input: r.Tokens.Input, Output: r.Tokens.Output, Cached: r.Tokens.Cached, Events: -1},
		Found: r.Tokens.Counted, MaxOutput: -1, Failed: syntax.IsError(r.Status),
	}
	if r.Tokens.Bounded {
		i.known.MaxOutput = r.Tokens.MaxOutput
	}
	i.known.Used.Model = r.Tokens.Model
	i.in.Content = i
	if len(r.Headers) > 0 {
		i.in.Header = i
	}
	if r.User != "" || len(r.Claims) > 0 {
		i.in.Claims = i
	}
	return &i.in
}

// Values implements [policy.Input.Header]. The result is valid until the next record.
func (i *input) Values(name string) []string {
	start := len(i.values)
	for k := range i.record.Headers {
		if f := &i.record.Headers[k]; f.Name == name {
			i.values = append(i.values, f.Value)
		}
	}
	return i.values[start:len(i.values):len(i.values)]
}

// Claim implements [policy.Input.Claims].
func (i *input) Claim(name string) string {
	value := i.record.Claim(name)
	i.usedUser = i.usedUser || value != "" && value == i.record.User && name == accesslog.UserClaim
	return value
}

// Known returns the token counts in the log.
func (i *input) Known() *tokens.Known { return &i.known }

// Body implements [policy.Input.Content]. Logs have no bodies.
func (i *input) Body(int64) (head []byte, length int64) { return nil, 0 }

// Digest implements [policy.Input.Content]. Logs have no bodies.
func (i *input) Digest() string { return "" }

func outcomeOf(r *accesslog.Record) policy.Outcome {
	return policy.Outcome{Status: r.Status, Bytes: r.Bytes}
}
