package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/internal/tlsfiles"
	"github.com/stint-limiter/stint/internal/xdstest"
	"github.com/stint-limiter/stint/server"
)

// inGateway returns the environment that Envoy Gateway gives its rate limit service, at commit
// d32f282, but with free ports of this machine and other paths. It includes the variable that the
// documentation of Envoy Gateway adds (site/content/en/latest/tasks/traffic/global-rate-limit.md).
func inGateway(control, redis, cert, key string) []string {
	return []string{
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit",
		"RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false",
		"LOG_LEVEL=info", "USE_STATSD=false", "CONFIG_TYPE=GRPC_XDS_SOTW",
		"CONFIG_GRPC_XDS_SERVER_URL=" + control, "CONFIG_GRPC_XDS_NODE_ID=" + xdstest.Node,
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + cert, "GRPC_SERVER_TLS_KEY=" + key,
		"GRPC_SERVER_TLS_CA_CERT=" + cert, // neither program reads it
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + cert,
		"CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + key, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + cert,
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis,
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_PORT=0",
		"CACHE_KEY_PREFIX=eg:rl:",
	}
}

// patientConfig returns the flag for a configuration with a long time budget, because a busy
// machine must not change the exact counts of these tests.
func patientConfig(t *testing.T) (flag string) {
	t.Helper()
	return "--config=" + testkit.TempFile(t, "stint.yaml",
		"failure: {budget: 5s}\ntiers: [{name: all, identity: everyone, limits: 100000/1h}]\n")
}

// inEnvoyGateway runs the program under the name ratelimit and without a command, as Envoy Gateway
// does, and calls it as Envoy does. It uses a real Redis, and go-control-plane's server with mutual
// TLS.
func inEnvoyGateway(t *testing.T, stint string) {
	binary := filepath.Join(t.TempDir(), ratelimitName)
	if err := os.Symlink(stint, binary); err != nil {
		t.Fatal(err)
	}
	redis := redistest.Start(t)
	cert, key := redistest.NewCertificate(t)
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if err := (tlsfiles.Files{CA: cert, Cert: cert, Key: key}).Apply(secure); err != nil {
		t.Fatal(err)
	}
	mutual := secure.Clone()
	mutual.ClientCAs, mutual.ClientAuth = secure.RootCAs, tls.RequireAndVerifyClientCert
	anonymous := secure.Clone()
	anonymous.Certificates = nil

	listen, address := xdstest.OnTCP(t)
	control := xdstest.New(t, listen)
	env := inGateway(address, redis.Addr(), cert, key)
	first := launchWith(t, binary, env, patientConfig(t))
	client := func(d *daemon, config *tls.Config) rlsv3.RateLimitServiceClient {
		conn := testkit.Opened(grpc.NewClient(d.at(server.GRPC), grpc.WithTransportCredentials(credentials.NewTLS(config))))(t)
		return rlsv3.NewRateLimitServiceClient(conn)
	}
	envoy := client(first, secure)
	question := func(hits int64) *rlsv3.RateLimitRequest {
		d := &commonv3.RateLimitDescriptor{IsNegativeHits: hits < 0,
			HitsAddend: wrapperspb.UInt64(uint64(max(hits, -hits)))}
		for _, key := range []string{"backend", "rule-0-match--1"} {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: key})
		}
		return &rlsv3.RateLimitRequest{Domain: "default/eg/http", Descriptors: []*commonv3.RateLimitDescriptor{d}}
	}
	ask := func(of rlsv3.RateLimitServiceClient, hits int64, want string) {
		t.Helper()
		answer, err := of.ShouldRateLimit(t.Context(), question(hits))
		got := answer.GetOverallCode().String()
		if err != nil {
			got = status.Code(err).String()
		}
		if got != want {
			t.Errorf("%d hits: %s, %v; want %s", hits, got, err, want)
		}
	}

	// The control plane has not started yet.
	ask(envoy, 1, codes.Unavailable.String())
	if is, _ := first.get(server.HTTP, "/readyz"); is != http.StatusServiceUnavailable {
		t.Errorf("/readyz is %d before there are rules", is)
	}
	if is, body := first.get(server.HTTP, "/healthcheck"); is != http.StatusOK || body != "OK" {
		t.Errorf("/healthcheck is %d %q; want 200, as FORCE_START_WITHOUT_INITIAL_CONFIG says", is, body)
	}
	control.Start(grpc.Creds(credentials.NewTLS(mutual)))
	control.Send(&rlsconfv3.RateLimitConfig{Name: "default/eg/http", Domain: "default/eg/http",
		Descriptors: []*rlsconfv3.RateLimitDescriptor{{Key: "backend", Value: "backend",
			Descriptors: []*rlsconfv3.RateLimitDescriptor{{Key: "rule-0-match--1", Value: "rule-0-match--1",
				RateLimit: &rlsconfv3.RateLimitPolicy{Unit: rlsconfv3.RateLimitUnit_YEAR, RequestsPerUnit: 4}}}}}})
	first.waitReady(http.StatusOK)
	for _, want := range []string{"OK", "OK"} {
		ask(envoy, 1, want)
	}
	// Callers may not return hits, because their certificates are not verified.
	ask(envoy, -1, codes.PermissionDenied.String())
	if _, body := first.getWith(server.Admin, "/rlconfig", ""); !strings.Contains(body,
		"default/eg/http.backend_backend.rule-0-match--1_rule-0-match--1: unit=YEAR requests_per_unit=4,") {
		t.Errorf("/rlconfig: %s", body)
	}

	// A second pod, which requires client certificates, shares the counts of the first one and
	// returns hits.
	second := launchWith(t, binary, append(env, "GRPC_CLIENT_TLS_CACERT="+cert), patientConfig(t))
	second.waitReady(http.StatusOK)
	other := client(second, secure)
	ask(client(second, anonymous), 1, codes.Unavailable.String())
	ask(other, 1, "OK")
	ask(other, -1, "OK")
	ask(other, 1, "OK")
	if is, body := second.get(server.HTTP, "/healthcheck"); is != http.StatusOK {
		t.Errorf("/healthcheck without TLS and certificate: %d %s", is, body)
	}
	control.Stop() // the last rules stay in force
	ask(envoy, 1, "OK")
	ask(envoy, 1, "OVER_LIMIT")
	ask(other, 1, "OVER_LIMIT")
	if keys := redis.CLI(t, "KEYS", "*"); !strings.Contains(keys, "eg:rl::{") || strings.Contains(keys, "stint") {
		t.Errorf("the keys do not all begin with CACHE_KEY_PREFIX:\n%s", keys)
	}
	is, body := first.get("metrics", "/metrics")
	const labels = `{domain="default/eg/http",key1="backend_backend",key2="rule-0-match--1_rule-0-match--1"} `
	for name, want := range map[string]string{"total_hits": "4", "over_limit": "1", "within_limit": "3"} {
		if is != http.StatusOK || !strings.Contains(body, "ratelimit_service_rate_limit_"+name+labels+want) {
			t.Errorf("/metrics is %d and has no %s of %s", is, name, want)
		}
	}
	if !strings.Contains(body, "stint_decisions_total") || strings.Contains(first.log.String(), "unsupported setting") {
		t.Errorf("stint's own metrics are missing, or there is a warning: %s", first.log.String())
	}
}
