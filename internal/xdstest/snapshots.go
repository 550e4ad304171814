package xdstest

import (
	_ "embed" // for the snapshots
	"encoding/json"
	"testing"

	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

//go:embed snapshots.json
var recorded []byte

// Snapshot holds the rules that Envoy Gateway sends for an example in its documentation, and the
// requests that Envoy sends under these rules.
type Snapshot struct {
	// Name is the name of the example, and Source says where it is documented. Rules holds the
	// output of Envoy Gateway's translation (internal/xds/translator/ratelimit.go at commit
	// d32f282).
	Name, Source string
	Rules        []*rlsconfv3.RateLimitConfig
	Questions    []Question
}

// Question is a request that Envoy sends several times.
type Question struct {
	Domain string
	// Descriptors holds the entries of each descriptor, in the form "key=value".
	Descriptors [][]string
	// Hits is the number of hits of each descriptor. -1 means that the request sets no number,
	// which counts as one hit.
	Hits int64
	// Times is the number of requests to send, and Allowed is the number of them that are allowed.
	Times, Allowed int
}

// Snapshots returns all recorded snapshots.
func Snapshots(t testing.TB) []Snapshot {
	t.Helper()
	var list []struct {
		Snapshot
		Resources []json.RawMessage // the Rules as JSON
	}
	if err := json.Unmarshal(recorded, &list); err != nil {
		t.Fatal(err)
	}
	var all []Snapshot
	for _, from := range list {
		s := from.Snapshot
		for _, resource := range from.Resources {
			rules := &rlsconfv3.RateLimitConfig{}
			if err := protojson.Unmarshal(resource, rules); err != nil {
				t.Fatal(err)
			}
			s.Rules = append(s.Rules, rules)
		}
		all = append(all, s)
	}
	return all
}
