package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/testkit"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Upstreams with https are spoken to in HTTP/2 if they can and if they may, and their certificates
// are checked. Trailers pass in both directions.
func TestUpstreamWithTLS(t *testing.T) {
	u := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-End")
		io.Copy(w, io.MultiReader(strings.NewReader(r.Proto+" "), r.Body))
		w.Header().Set("X-End", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Unannounced", "7")
	}))
	u.EnableHTTP2 = true
	u.Config.ErrorLog = discardLog()
	u.StartTLS()
	t.Cleanup(u.Close)
	roots := x509.NewCertPool()
	roots.AddCert(u.Certificate())
	trust := &tls.Config{RootCAs: roots}
	for _, c := range []struct {
		config config.Gateway
		want   string
	}{
		{config.Gateway{TLS: trust}, "HTTP/2.0 body"},
		{config.Gateway{TLS: trust, NoHTTP2: true}, "HTTP/1.1 body"},
		{config.Gateway{}, "bad_gateway"},
	} {
		c.config.Routes = to(u.URL).Routes
		g := serve(t, newGateway(t, open, c.config))
		r := request(t, "POST", g.URL, io.MultiReader(strings.NewReader("body")))
		r.Trailer = http.Header{"X-Sum": {"42"}}
		resp := send(t, http.DefaultTransport, r)
		if got := read(t, resp); !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if got := resp.Trailer; resp.StatusCode == 200 && (got.Get("X-End") != "42" || got.Get("X-Unannounced") != "7") {
			t.Errorf("%s: trailers: got %v, want 42 and 7", c.want, got)
		}
	}
}

// The request goes on while its response comes: by either protocol of clients, to an upstream with
// HTTP/1.1. The client may be silent then.
func TestBothDirectionsAtOnce(t *testing.T) {
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		rc.Flush()
		buffer := make([]byte, 16)
		for {
			n, err := r.Body.Read(buffer)
			w.Write(bytes.ToUpper(buffer[:n]))
			rc.Flush()
			if err != nil {
				return
			}
		}
	})
	c := to(u.URL)
	c.BodyTimeout = brief
	g := testkit.ServeHTTP2(t, newGateway(t, open, c))
	for i, tr := range []*http.Transport{{}, h2c(t)} {
		in, out := io.Pipe()
		resp := send(t, tr, request(t, "POST", g.URL, in))
		for _, word := range []string{"one", "two"} {
			time.Sleep(3 * brief)
			io.WriteString(out, word)
			got := make([]byte, len(word))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != strings.ToUpper(word) {
				t.Fatalf("%s: got %q, %v", resp.Proto, got, err)
			}
		}
		out.Close()
		if rest := read(t, resp); rest != "" || resp.ProtoMajor != i+1 {
			t.Errorf("%s, in the end: got %q", resp.Proto, rest)
		}
		if resp.ProtoMajor == 1 && !resp.Close {
			t.Error("the connection was kept, though the response began before the end of the body")
		}
		tr.CloseIdleConnections()
	}
	// A query with a space would be two words of a request line.
	r := request(t, "GET", g.URL, nil)
	r.URL.RawQuery = "a HTTP/1.1 b"
	if resp := send(t, h2c(t), r); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a query with spaces: got %d, want 400", resp.StatusCode)
	}
}

// gRPC passes from end to end, messages of streams one by one, and a denial is an error that
// clients understand.
func TestGRPC(t *testing.T) {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	state := health.NewServer()
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, state)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-served })

	const text = "tiers: [{name: all, identity: ip, limits: 3/1h}]\n"
	g := testkit.ServeHTTP2(t, newGateway(t, text, to("h2c://"+l.Addr().String())))
	conn := testkit.Must(grpc.NewClient(g.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	if got, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil ||
		got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("Check: got %v, %v", got, err)
	}
	if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("Check of a service that there is not: got %v, want NotFound", err)
	}
	watch := testkit.Must(client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: "a"}))(t)
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{3, 2} { // unknown, then not serving
		if got, err := watch.Recv(); err != nil || got.Status != want {
			t.Fatalf("Watch: got %v, %v, want %v", got, err, want)
		}
		state.SetServingStatus("a", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
	if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("the fourth: got %v, want Unavailable, which gRPC makes of a 429", err)
	}
}
