package server

import (
	"net/http"
	"strings"
	"testing"

	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/internal/xdstest"
)

// TestXDSReady: a server whose rules come over xDS listens at once and is not ready until the first
// ones have arrived. /healthcheck can succeed before.
func TestXDSReady(t *testing.T) {
	for _, healthy := range []bool{false, true} {
		listen, address := xdstest.OnTCP(t)
		control := xdstest.New(t, listen)
		c := everywhere(t)
		c.Envoy = Envoy{Window: "fixed", XDS: &EnvoyXDS{Server: address, NodeID: xdstest.Node, Healthy: healthy}}
		r := start(t, c)
		conn := r.dial()
		check := func() string {
			answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return answer.GetStatus().String()
		}
		if _, err := ask(t.Context(), conn, "a"); status.Code(err) != codes.Unavailable || check() != "NOT_SERVING" {
			t.Errorf("before the first rules: %v, %s", err, check())
		}
		if is, body := r.get(HTTP, "/readyz", ""); is != http.StatusServiceUnavailable || body != "starting\n" {
			t.Errorf("/readyz before the first rules: %d %q", is, body)
		}
		if is, _ := r.get(HTTP, "/healthcheck", ""); (is == http.StatusOK) != healthy {
			t.Errorf("/healthcheck before the first rules: %d; healthy is %v", is, healthy)
		}
		if is, body := r.get(Admin, "/rlconfig", ""); is != http.StatusOK || body != "" {
			t.Errorf("/rlconfig before the first rules: %d %q", is, body)
		}
		if _, body := r.get(Admin, "/config", ""); !strings.Contains(body, "xds://"+address) {
			t.Errorf("/config does not name the server: %s", body)
		}
		control.Send(xdstest.Limit("test", "user", 1, rlsconfv3.RateLimitUnit_HOUR))
		control.Start()
		defer control.Stop()
		testkit.Eventually(t, "the server is ready", func() bool {
			is, _ := r.get(HTTP, "/readyz", "")
			return is == http.StatusOK
		})
		if is, _ := r.get(HTTP, "/healthcheck", ""); is != http.StatusOK || check() != "SERVING" {
			t.Errorf("/healthcheck %d, gRPC %s", is, check())
		}
		for _, want := range []string{"OK", "OVER_LIMIT"} {
			if answer, err := ask(t.Context(), conn, "a"); err != nil || answer.GetOverallCode().String() != want {
				t.Errorf("%v, %v; want %s", answer, err, want)
			}
		}
		_, body := r.get(Admin, "/rlconfig", "")
		if !strings.HasPrefix(body, "test.user: unit=HOUR requests_per_unit=1,") {
			t.Errorf("/rlconfig: %s", body)
		}
		if err := r.Reload(); err != nil {
			t.Errorf("Reload: %v", err)
		}
	}
}

// TestXDSMistakes: what is wrong with the settings of xDS is reported together.
func TestXDSMistakes(t *testing.T) {
	c := everywhere(t)
	c.TLSOnlyGRPC, c.GRPC = true, ""
	c.Envoy.XDS = &EnvoyXDS{Server: "envoy-gateway", Cert: "a.pem", MaxMessage: -1}
	_, err := New(c)
	for _, want := range []string{
		"want host:port, such as envoy-gateway:18001", "needs its key", "the connection is without TLS",
		"-1 bytes for a message", "come from files and over xDS; want one of them", "there is no gRPC",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
