package server

import (
	"crypto/tls"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	proxyToken   = "token-of-an-envoy"
	oneHit       = `{"domain":"test","descriptors":[{"entries":[{"key":"user","value":"a"}],"hitsAddend":"0"}]}`
	negativeHits = `{"domain":"test","descriptors":[{"entries":[{"key":"user","value":"a"}],"hitsAddend":"2","isNegativeHits":true}]}`
)

// TestEnvoyJSON: who may ask on /json, and give hits back there and over gRPC.
func TestEnvoyJSON(t *testing.T) {
	a := newAuthority(t)
	withTokens := func(c *Config) {
		c.Envoy.Tokens = filepath.Join(t.TempDir(), "tokens")
		put(t, c.Envoy.Tokens, proxyToken)
	}
	withCertificates := func(c *Config) {
		a.secure(c)
		c.ClientCA = filepath.Join(t.TempDir(), "ca.pem")
		put(t, c.ClientCA, a.pem)
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
			{oneHit, "Host: localhost:8080", 200},
			{oneHit, elsewhere, 401},
			{oneHit, "Host: rebound.example", 401},
			{oneHit, "Content-Type: text/plain", 415},
			{oneHit, "Content-Type: application/x-www-form-urlencoded", 415},
			{oneHit, "Sec-Fetch-Site: cross-site", 403},
			{oneHit, "Origin: https://evil.example", 403},
			{negativeHits, "", 403},
		}, codes.PermissionDenied},
		{"public", func(c *Config) { c.APIPublic = true }, []post{
			{oneHit, elsewhere, 200},
			{oneHit, elsewhere + "\nSec-Fetch-Site: cross-site", 403},
			{negativeHits, elsewhere, 403},
		}, codes.PermissionDenied},
		{"tokens of the API", func(c *Config) {
			c.APITokens = filepath.Join(t.TempDir(), "tokens")
			put(t, c.APITokens, proxyToken)
		}, []post{
			{oneHit, "", 200},
			{oneHit, elsewhere + "\n" + token, 401},
			{negativeHits, token, 403},
		}, codes.PermissionDenied},
		{"tokens", withTokens, []post{
			{oneHit, "", 401},
			{oneHit, token, 200},
			{oneHit, elsewhere + "\n" + token, 200},
			{oneHit, token + "\nContent-Type: text/plain", 415},
			{oneHit, token + "\nSec-Fetch-Site: cross-site", 403},
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
				at, client, secure = strings.Replace(at, "http:", "https:", 1), &http.Client{
					Transport: transport}, credentials.NewTLS(config)
			}
			for _, p := range test.posts {
				if got, body := sendBy(t, client, http.MethodPost, at, p.body, strings.Split(p.fields, "\n")...); got != p.want {
					t.Errorf("%s with %q: got %d, %s; want %d", p.body, p.fields, got, body, p.want)
				}
			}

			conn := r.dial(grpc.WithTransportCredentials(secure))
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+proxyToken)
			if _, err := ask(ctx, conn, "b"); err != nil {
				t.Fatal(err)
			}
			answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{
				Domain: "test",
				Descriptors: []*ratelimit.RateLimitDescriptor{{
					Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "b"}},
					HitsAddend: wrapperspb.UInt64(1), IsNegativeHits: true,
				}},
			})
			if status.Code(err) != test.back {
				t.Errorf("negative hits over gRPC: got %v, want %v", err, test.back)
			}
			if test.back == codes.OK && answer.GetStatuses()[0].GetLimitRemaining() != 3 {
				t.Errorf("negative hits over gRPC: got %v, want all 3 back", answer)
			}
		})
	}
}
