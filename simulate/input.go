package simulate

import (
	"github.com/stint-limiter/stint/policy"
	"github.com/stint-limiter/stint/simulate/accesslog"
)

// input turns records into what a guard judges. It is used again for every record, so that none is allocated.
type input struct {
	in     policy.Input
	record *accesslog.Record
	values []string // that were asked for; see Values
}

// userClaim is the claim that says who the logging server had authenticated.
const userClaim = "user"

// of returns what is known of a record. It is good until the next call.
func (i *input) of(r *accesslog.Record) *policy.Input {
	i.record, i.values = r, i.values[:0]
	i.in = policy.Input{Method: r.Method, Host: r.Host, Path: r.Path, RawPath: r.RawPath, Peer: r.Client}
	if len(r.Headers) > 0 {
		i.in.Header = i
	}
	if r.User != "" || len(r.Claims) > 0 {
		i.in.Claims = i
	}
	return &i.in
}

// Values implements [policy.Header]. What it returned before stays good until the next record.
func (i *input) Values(name string) []string {
	start := len(i.values)
	for k := range i.record.Headers {
		if f := &i.record.Headers[k]; f.Name == name {
			i.values = append(i.values, f.Value)
		}
	}
	return i.values[start:len(i.values):len(i.values)]
}

// Claim implements [policy.Claims]. A claim that is mapped goes before the user of the log.
func (i *input) Claim(name string) string {
	for k := range i.record.Claims {
		if f := &i.record.Claims[k]; f.Name == name {
			return f.Value
		}
	}
	if name == userClaim {
		return i.record.User
	}
	return ""
}
