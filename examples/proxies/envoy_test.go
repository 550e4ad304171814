package proxies

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // a type that envoy.yaml names
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // another one
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/stint-limiter/stint/internal/proxytest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestEnvoyTypes also has the matchers and the application read one path.
func TestEnvoyTypes(t *testing.T) {
	manager := only[*hcmv3.HttpConnectionManager](t, readEnvoy(t, "envoy/envoy.yaml"))
	if !manager.GetNormalizePath().GetValue() || !manager.GetMergeSlashes() ||
		manager.GetPathWithEscapedSlashesAction() != hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT {
		t.Error("envoy.yaml: want normalize_path, merge_slashes and path_with_escaped_slashes_action")
	}
	for _, name := range notForClients {
		written := []string{"x-forwarded-for", "x-forwarded-proto", "x-user-id"} // or removed by a route
		if name = strings.ToLower(name); !strings.HasPrefix(name, "x-envoy-") && !slices.Contains(written, name) &&
			!slices.Contains(manager.GetRouteConfig().GetRequestHeadersToRemove(), name) {
			t.Errorf("envoy.yaml: %s: want it removed", name)
		}
	}
}

// readEnvoy reads a configuration by Envoy's own types, as strictly as Envoy: names, values, what
// must be there and what is deprecated, in every typed_config too. It returns the bootstrap and the
// messages of the typed_configs.
func readEnvoy(t *testing.T, file string) []proto.Message {
	t.Helper()
	text := testkit.ReadFile(t, file)
	var document any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	bootstrap := new(bootstrapv3.Bootstrap)
	if err := protojson.Unmarshal(asJSON, bootstrap); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var messages []proto.Message
	err = protorange.Range(bootstrap.ProtoReflect(), func(v protopath.Values) error {
		switch at := v.Index(-1); at.Step.Kind() {
		case protopath.RootStep, protopath.AnyExpandStep: // validation of a message ends at an Any
			m := at.Value.Message().Interface()
			messages = append(messages, m)
			if err := m.(interface{ ValidateAll() error }).ValidateAll(); err != nil {
				t.Errorf("%s: %s: %v", file, v.Path, err)
			}
		case protopath.FieldAccessStep:
			field := at.Step.FieldDescriptor()
			if field.Options().(*descriptorpb.FieldOptions).GetDeprecated() {
				t.Errorf("%s: %s is deprecated", file, v.Path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(messages)-1, strings.Count(text, `"@type"`); got != want {
		t.Errorf("%s: %d typed_configs were checked, want %d", file, got, want)
	}
	return messages
}

// only returns the one message of a type.
func only[M proto.Message](t *testing.T, messages []proto.Message) M {
	t.Helper()
	i := slices.IndexFunc(messages, func(m proto.Message) bool { _, ok := m.(M); return ok })
	if i < 0 {
		t.Fatalf("envoy.yaml has no %T", *new(M))
	}
	return messages[i].(M)
}

// testEnvoyRules has stint answer what envoy.yaml has Envoy ask about some requests.
func testEnvoyRules(t *testing.T, binary string) {
	messages := readEnvoy(t, "envoy/envoy.yaml")
	domain := only[*filterv3.RateLimit](t, messages).GetDomain()
	site := only[*hcmv3.HttpConnectionManager](t, messages).GetRouteConfig().GetVirtualHosts()[0]

	address := proxytest.FreeAddress(t)
	proxytest.NewStint(t, binary, "--config", "stint.yaml", "--grpc", address, "--envoy-config", "envoy/rules").Start(t)
	conn := testkit.Must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	service := rlsv3.NewRateLimitServiceClient(conn)

	tests := []struct {
		name, client, method, path, key string
		limit                           int // 0: used up by the row before
	}{
		{"a user", "203.0.113.1", "GET", "/things", "alice-secret", userLimit},
		{"the user from elsewhere", "203.0.113.2", "GET", "/things", "alice-secret", 0},
		{"anonymous", "203.0.113.3", "GET", "/things", "", anonymousLimit},
		{"another one", "203.0.113.4", "GET", "/things", "wrong", anonymousLimit},
		{"login", "203.0.113.5", "POST", "/login", "", loginLimit},
		{"login in capitals", "203.0.113.5", "POST", "/LOGIN", "", 0},
		{"what is not a login", "203.0.113.6", "GET", "/login", "", anonymousLimit},
	}
	for _, test := range tests {
		r := httptest.NewRequest(test.method, test.path, nil)
		r.Header.Set("X-API-Key", test.key)
		asked := descriptors(t, site, r, test.client)
		if len(asked) == 0 {
			t.Errorf("%s: Envoy asks nothing", test.name)
		}
		for i := range test.limit + 1 {
			answer, err := service.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: domain, Descriptors: asked})
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
	if asked := descriptors(t, site, httptest.NewRequest("GET", "/healthz", nil), "203.0.113.7"); len(asked) > 0 {
		t.Errorf("Envoy asks about health checks: %v", asked)
	}
}

// descriptors returns what Envoy asks about a request: one for each list of actions that all apply,
// of the first route that matches, and of the virtual host if the route includes it or has none.
func descriptors(t *testing.T, site *routev3.VirtualHost, r *http.Request, client string) (asked []*commonv3.RateLimitDescriptor) {
	t.Helper()
	i := slices.IndexFunc(site.GetRoutes(), func(route *routev3.Route) bool {
		m := route.GetMatch()
		fits := r.URL.Path == m.GetPath()
		if m.GetPath() == "" {
			fits = strings.HasPrefix(r.URL.Path, m.GetPrefix())
		}
		return fits && headersMatch(t, m.GetHeaders(), r)
	})
	if i < 0 {
		t.Fatalf("no route for %s", r.URL)
	}
	var perRoute filterv3.RateLimitPerRoute
	if err := site.GetTypedPerFilterConfig()["envoy.filters.http.ratelimit"].UnmarshalTo(&perRoute); err != nil {
		t.Fatal(err)
	}
	limits := site.GetRoutes()[i].GetRoute().GetRateLimits()
	if len(limits) == 0 || perRoute.GetVhRateLimits() == filterv3.RateLimitPerRoute_INCLUDE {
		limits = append(slices.Clone(limits), site.GetRateLimits()...)
	}
	for _, limit := range limits {
		d := new(commonv3.RateLimitDescriptor)
		for _, action := range limit.GetActions() {
			e := new(commonv3.RateLimitDescriptor_Entry)
			switch a := action.GetActionSpecifier().(type) {
			case *routev3.RateLimit_Action_GenericKey_:
				e.Key, e.Value = a.GenericKey.GetDescriptorKey(), a.GenericKey.GetDescriptorValue()
			case *routev3.RateLimit_Action_RemoteAddress_:
				e.Key, e.Value = "remote_address", client
			case *routev3.RateLimit_Action_HeaderValueMatch_:
				if headersMatch(t, a.HeaderValueMatch.GetHeaders(), r) {
					e.Key, e.Value = a.HeaderValueMatch.GetDescriptorKey(), a.HeaderValueMatch.GetDescriptorValue()
				}
			default:
				t.Fatalf("this test does not know the action %T", a)
			}
			d.Entries = append(d.Entries, e)
		}
		if !slices.ContainsFunc(d.Entries, func(e *commonv3.RateLimitDescriptor_Entry) bool { return e.Key == "" }) {
			asked = append(asked, d)
		}
	}
	return asked
}

func headersMatch(t *testing.T, matchers []*routev3.HeaderMatcher, r *http.Request) bool {
	t.Helper()
	for _, m := range matchers {
		value := r.Header.Get(m.GetName())
		switch m.GetName() {
		case ":method":
			value = r.Method
		case ":path":
			value = r.URL.RequestURI()
		}
		exact, prefix := m.GetStringMatch().GetExact(), m.GetStringMatch().GetPrefix()
		if m.GetStringMatch().GetIgnoreCase() {
			value, exact, prefix = strings.ToLower(value), strings.ToLower(exact), strings.ToLower(prefix)
		}
		if exact == "" && prefix == "" {
			t.Fatalf("this test does not know the matcher %v", m)
		}
		if exact != "" && value != exact || !strings.HasPrefix(value, prefix) {
			return false
		}
	}
	return true
}
