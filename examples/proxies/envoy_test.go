package proxies

import (
	"encoding/json"
	"os"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3" // types that envoy.yaml names
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/stint-limiter/stint/internal/proxytest"
)

// TestEnvoyTypes holds envoy.yaml against Envoy's own types: names, values and what must be there.
// Nothing is run.
func TestEnvoyTypes(t *testing.T) {
	text, err := os.ReadFile("envoy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var bootstrap bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(asJSON, &bootstrap); err != nil {
		t.Fatal(err)
	}
	if err := bootstrap.ValidateAll(); err != nil {
		t.Error(err)
	}
}

// testEnvoyRules has stint answer what envoy.yaml asks.
func testEnvoyRules(t *testing.T, binary string) {
	address := proxytest.FreeAddress(t)
	proxytest.NewStint(t, binary, "--config", "stint.yaml", "--grpc", address, "--envoy-config", "envoy/rules").Start(t)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	service := rlsv3.NewRateLimitServiceClient(conn)

	const client = "203.0.113.9"
	tests := []struct {
		name    string
		entries []string // keys and values
		limit   int
	}{
		{"a user", []string{"user", "alice"}, userLimit},
		{"another user", []string{"user", "bob"}, userLimit},
		{"anonymous", []string{"tier", "anonymous", "remote_address", client}, anonymousLimit},
		{"login", []string{"policy", "login", "remote_address", client}, loginLimit},
	}
	for _, test := range tests {
		d := new(ratelimitv3.RateLimitDescriptor)
		for i := 0; i < len(test.entries); i += 2 {
			d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{
				Key: test.entries[i], Value: test.entries[i+1]})
		}
		for i := range test.limit + 1 {
			answer, err := service.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{
				Domain: "web", Descriptors: []*ratelimitv3.RateLimitDescriptor{d},
			})
			if err != nil {
				t.Fatal(err)
			}
			want := rlsv3.RateLimitResponse_OK
			if i == test.limit {
				want = rlsv3.RateLimitResponse_OVER_LIMIT
			}
			if got := answer.GetOverallCode(); got != want {
				t.Errorf("%s: request %d: got %v, want %v", test.name, i+1, got, want)
			}
		}
	}
}
