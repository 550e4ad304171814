package testkit

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// ServeHTTP2 serves a handler over HTTP/1 and HTTP/2, both without TLS, until the test ends. The
// server logs nothing. The options change the server before it starts.
func ServeHTTP2(t testing.TB, h http.Handler, options ...func(*http.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	for _, option := range options {
		option(s.Config)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// HTTP2Header encodes a header for clients that send HTTP/2 frames themselves. The arguments are
// field names, each followed by its value.
func HTTP2Header(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // never fails
	}
	return b.Bytes()
}

// HTTP2CallHeader encodes the header of a gRPC call without a token.
func HTTP2CallHeader(method string) []byte {
	return HTTP2Header(":method", "POST", ":scheme", "http", ":path", method, ":authority", "a",
		"content-type", "application/grpc", "te", "trailers")
}
