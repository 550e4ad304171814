package server

import (
	"crypto/tls"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/internal/xdstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestEnvoyLog: what Envoy's service decides is logged as all else is, as often as the policies
// say, and still counted.
func TestEnvoyLog(t *testing.T) {
	c := everywhere(t)
	testkit.WriteFile(t, c.Policies, three+"log: {denials: 1000000}\n")
	r := start(t, c)
	const question = `{"domain": "test", "descriptors": [{"entries": [{"key": "user", "value": "somebody-in-particular"}]}]}`
	const asked = 30
	answer := ""
	for i := range asked {
		status, body := send(t, http.MethodPost, r.url(HTTP, "/json"), question)
		if answer = body; (status == http.StatusTooManyRequests) != (i >= 3) {
			t.Fatalf("request %d: %d", i+1, status)
		}
	}
	id := regexp.MustCompile(`"X-RateLimit-Denial",\s*"value":\s*"([0-9a-f]{16})"`).FindStringSubmatch(answer)
	if id == nil {
		t.Fatalf("the answer has no id: %s", answer)
	}
	r.wantGet(Admin, "/api/why?id="+id[1], "", 200, `"limit":"3/1h"`)
	r.wantGet(Admin, "/api/subject?subject=envoy:test:user=somebody-in-particular", "", 200, `"used":3`)
	denied := 0
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, `level=WARN msg="stint: denied" policy=test.user tier=envoy key=envoy:test:u… `) &&
			strings.Contains(line, " limit=3/1h retry_after=") {
			denied++
		}
	}
	if denied != asked-3 || strings.Contains(r.log.String(), "somebody-in-particular") {
		t.Errorf("%d of %d denials are logged:\n%s", denied, asked-3, r.log)
	}
	if !r.counted(`stint_decisions_total{outcome="denied",policy="test.user",reason="limit",tier="envoy"} 27`) {
		t.Error("the denials are not counted")
	}
}

const (
	proxyToken   = "token-of-an-envoy"
	oneHit       = `{"domain":"test","descriptors":[{"entries":[{"key":"user","value":"a"}],"hitsAddend":"0"}]}`
	negativeHits = `{"domain":"test","descriptors":[{"entries":[{"key":"user","value":"a"}],"hitsAddend":"2","isNegativeHits":true}]}`
)

// TestEnvoyJSON: who may ask on /json and over gRPC, and give hits back. The health service asks for
// no token, and the tokens of Envoy open and close nothing else.
func TestEnvoyJSON(t *testing.T) {
	a := newAuthority(t)
	withTokens := func(c *Config) { c.Envoy.Tokens = testkit.TempFile(t, "tokens", proxyToken) }
	withCertificates := func(c *Config) {
		a.secure(c)
		c.ClientCA = testkit.TempFile(t, "ca.pem", a.pem)
	}
	const elsewhere, token = "X-Forwarded-For: 203.0.113.9", "Authorization: Bearer " + proxyToken
	type post struct {
		body, fields string
		want         int
	}
	for _, test := range []struct {
		name   string
		config func(*Config)
		posts  []post
		back   codes.Code // of negative hits over gRPC
	}{
		{"nothing configured", func(*Config) {}, []post{
			{oneHit, "", 200},
			{oneHit, elsewhere, 401},
			{oneHit, "Host: rebound.example", 401},
			{oneHit, "Content-Type: text/plain", 415},
			{oneHit, "Sec-Fetch-Site: cross-site", 403},
			{oneHit, "Origin: https://evil.example", 403},
			{negativeHits, "", 403},
		}, codes.PermissionDenied},
		{"public", func(c *Config) { c.APIPublic = true }, []post{
			{oneHit, elsewhere, 200},
			{oneHit, elsewhere + "\nSec-Fetch-Site: cross-site", 403},
			{negativeHits, elsewhere, 403},
		}, codes.PermissionDenied},
		{"tokens of the API", func(c *Config) { c.APITokens = testkit.TempFile(t, "tokens", proxyToken) }, []post{
			{oneHit, "", 200},
			{oneHit, elsewhere + "\n" + token, 401},
			{negativeHits, token, 403},
		}, codes.PermissionDenied},
		{"tokens", withTokens, []post{
			{oneHit, "", 401},
			{oneHit, token, 200},
			{oneHit, elsewhere + "\n" + token, 200},
			{negativeHits, "", 401},
			{negativeHits, token, 200},
		}, codes.OK},
		{"tokens beside a public API", func(c *Config) { withTokens(c); c.APIPublic = true }, []post{
			{oneHit, elsewhere, 401},
			{oneHit, elsewhere + "\n" + token, 200},
		}, codes.OK},
		{"certificates", withCertificates, []post{
			{oneHit, "", 200},
			{oneHit, elsewhere, 200},
			{negativeHits, "", 200},
		}, codes.OK},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := everywhere(t)
			test.config(&c)
			r := start(t, c)
			at, client, secure := r.url(HTTP, "/json"), http.DefaultClient, insecure.NewCredentials()
			if c.TLSCert != "" {
				config := a.client("proxy")
				transport := &http.Transport{TLSClientConfig: config,
					TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
				defer transport.CloseIdleConnections()
				at, client = strings.Replace(at, "http:", "https:", 1), &http.Client{Transport: transport}
				secure = credentials.NewTLS(config)
			}
			for _, p := range test.posts {
				if got, body := sendBy(t, client, http.MethodPost, at, p.body, strings.Split(p.fields, "\n")...); got != p.want {
					t.Errorf("%s with %q: got %d, %s; want %d", p.body, p.fields, got, body, p.want)
				}
			}

			if c.TLSCert == "" {
				if got, body := r.take(""); (got == 401) != (c.APITokens != "") {
					t.Errorf("the API: got %d, %s", got, body)
				}
			}
			conn := r.dial(grpc.WithTransportCredentials(secure))
			for authorization, want := range map[string]string{"": "Unauthenticated", "Bearer other-token-of-tests": "Unauthenticated",
				"Basic " + proxyToken: "Unauthenticated", "bearer " + proxyToken: "OK"} {
				if c.Envoy.Tokens == "" {
					want = "OK"
				}
				if got := codeOf(t, conn, authorization); got != want {
					t.Errorf("gRPC with %q: got %s, want %s", authorization, got, want)
				}
			}
			if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
				t.Errorf("the health service: %v", err)
			}
			if all, err := healthpb.NewHealthClient(conn).List(t.Context(), &healthpb.HealthListRequest{}); err != nil ||
				all.GetStatuses()[""].GetStatus() != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("the list of the health service: %v, %v", all, err)
			}
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+proxyToken)
			if _, err := ask(ctx, conn, "b"); err != nil {
				t.Fatal(err)
			}
			back := question("b")
			back.Descriptors[0].HitsAddend, back.Descriptors[0].IsNegativeHits = wrapperspb.UInt64(1), true
			answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, back)
			if status.Code(err) != test.back {
				t.Errorf("negative hits over gRPC: got %v, want %v", err, test.back)
			}
			if test.back == codes.OK && answer.GetStatuses()[0].GetLimitRemaining() != 3 {
				t.Errorf("negative hits over gRPC: got %v, want all 3 back", answer)
			}
		})
	}
}

// TestXDSReady: a server whose rules come over xDS is not ready until the first ones have arrived.
// /healthcheck can succeed before. Package main of cmd/stint shows that they are obeyed.
func TestXDSReady(t *testing.T) {
	for _, healthy := range []bool{false, true} {
		listen, address := xdstest.OnTCP(t)
		control := xdstest.New(t, listen)
		c := everywhere(t)
		c.Envoy = Envoy{Window: "fixed", XDS: &EnvoyXDS{Server: address, NodeID: xdstest.Node, Healthy: healthy}}
		r := start(t, c)
		if is, body := r.get(HTTP, "/readyz", ""); is != http.StatusServiceUnavailable || body != "starting\n" {
			t.Errorf("/readyz before the first rules: %d %q", is, body)
		}
		if is, _ := r.get(HTTP, "/healthcheck", ""); (is == http.StatusOK) != healthy {
			t.Errorf("/healthcheck before the first rules: %d; healthy is %v", is, healthy)
		}
		control.Send(xdstest.Limit("test", "user", 1, rlsconfv3.RateLimitUnit_HOUR))
		control.Start()
		defer control.Stop()
		testkit.Eventually(t, "the server is ready", func() bool {
			is, _ := r.get(HTTP, "/readyz", "")
			return is == http.StatusOK
		})
		r.wantGet(HTTP, "/healthcheck", "", 200, "")
	}
}

// TestXDSMistakes: what is wrong with the settings of xDS is reported together.
func TestXDSMistakes(t *testing.T) {
	c := everywhere(t)
	c.TLSOnlyGRPC, c.GRPC = true, ""
	c.Envoy.XDS = &EnvoyXDS{Server: "envoy-gateway", Cert: "a.pem", MaxMessage: -1}
	_, err := New(c)
	for _, want := range []string{
		"Config.Envoy.XDS.Server: address envoy-gateway: missing port in address; want host:port, such as envoy-gateway:18001",
		"Config.Envoy.XDS.Cert needs Config.Envoy.XDS.Key", "the connection is without TLS",
		"Config.Envoy.XDS.MaxMessage is -1", "Config.Envoy.XDS cannot be used together", "Config.TLSOnlyGRPC needs",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// TestEnvoyMerge has two files configure one domain if that is wanted.
func TestEnvoyMerge(t *testing.T) {
	c := everywhere(t)
	more := filepath.Join(c.Envoy.Rules, "more.yaml")
	testkit.WriteFile(t, more, "domain: test\ndescriptors: [{key: guest, rate_limit: {unit: hour, requests_per_unit: 1}}]\n")
	if _, err := New(c); err == nil {
		t.Error("two files with one domain: no error")
	}
	c.Envoy.MergeDomains = true
	r := start(t, c)
	for _, want := range []string{"test.guest: unit=HOUR requests_per_unit=1", "test.user: unit=HOUR requests_per_unit=3"} {
		r.wantGet(Admin, "/rlconfig", "", 200, want)
	}
}
