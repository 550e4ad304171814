package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/testkit"
)

// TestGatewayRoutes checks the routes that the flags name.
func TestGatewayRoutes(t *testing.T) {
	c := gatewayCommand{
		Upstream: "http://a", Route: []string{"/api=http://b/v1?", "api.example.com=https://c",
			"api.example.com/v1=h2c://d:1"}, StripPrefix: true, RewriteHost: true,
	}
	if _, err := c.parseRoutes(); err == nil {
		t.Error("a query: no error")
	}
	c.Route[0] = "/api=http://b/v1"
	got, err := c.parseRoutes()
	want := []config.Route{
		{Upstream: "http://a", RewriteHost: true},
		{PathPrefix: "/api", Upstream: "http://b/v1", StripPrefix: true, RewriteHost: true},
		{Host: "api.example.com", Upstream: "https://c", RewriteHost: true},
		{Host: "api.example.com", PathPrefix: "/v1", Upstream: "h2c://d:1", StripPrefix: true, RewriteHost: true},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

// certificateOf returns the certificate of a server.
func certificateOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// TestUpstreamCA trusts an upstream whose certificate the system does not trust.
func TestUpstreamCA(t *testing.T) {
	upstream := httptest.NewTLSServer(http.NotFoundHandler())
	defer upstream.Close()
	file := testkit.TempFile(t, "ca.pem", certificateOf(upstream))
	config := testkit.Must((&gatewayCommand{UpstreamCA: file}).tls())(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	response := testkit.Must(client.Get(upstream.URL))(t)
	response.Body.Close()
}
