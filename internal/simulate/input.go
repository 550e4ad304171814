package simulate

import (
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/policy"
)

// input converts records to the input of a guard. It is reused for all records to avoid
// allocations.
type input struct {
	in     policy.Input
	record *accesslog.Record
	values []string // returned by Values for this record
}

// of returns the input for a record. It is valid until the next call.
func (i *input) of(r *accesslog.Record) *policy.Input {
	i.record, i.values = r, i.values[:0]
	i.in = policy.Input{Method: r.Method, Host: r.Host, Path: r.Path, RawPath: r.RawPath, Peer: r.Client}
	if len(r.Headers) > 0 {
		i.in.Header = i
	}
	if r.User != "" || len(r.Claims) > 0 {
		i.in.Claims = r
	}
	return &i.in
}

// Values implements the Header of [policy.Input]. The result is valid until the next record.
func (i *input) Values(name string) []string {
	start := len(i.values)
	for k := range i.record.Headers {
		if f := &i.record.Headers[k]; f.Name == name {
			i.values = append(i.values, f.Value)
		}
	}
	return i.values[start:len(i.values):len(i.values)]
}

// outcomeOf returns the outcome of a request: its response.
func outcomeOf(r *accesslog.Record) policy.Outcome {
	return policy.Outcome{Status: r.Status, Bytes: r.Bytes}
}
