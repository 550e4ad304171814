package server_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"strings"

	"github.com/stint-limiter/stint/server"
)

// A daemon inside a program: it starts, decides for callers in any language, and stops. Its
// policies are usually in a file, Config.Policies; here the caller sends its own limits.
func Example() {
	s, err := server.New(server.Config{HTTP: "127.0.0.1:0", APIAdHoc: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := s.Start(ctx); err != nil { // returns when it serves requests
		log.Fatal(err)
	}
	defer s.Stop(ctx)
	url := fmt.Sprintf("http://%s/v1/take", s.Addr(server.HTTP))
	resp, err := http.Post(url, "application/json", strings.NewReader(`{"subject": "user:42", "limits": ["100/1m"]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, resp.Header.Get("X-RateLimit-Remaining"))
	// Output:
	// 200 OK 99
}

// Everything that can be checked without a network is an error of New.
func ExampleNew_mistakes() {
	_, err := server.New(server.Config{HTTP: "localhost", TLSCert: "cert.pem", Admin: "0.0.0.0:6070"})
	fmt.Println(err)
	// Output:
	// stint: invalid: Config.TLSCert and Config.TLSKey: want both or neither
	// Config.HTTP: address localhost: missing port in address; want host:port, such as :8080 or 127.0.0.1:8080
}
