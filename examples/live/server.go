package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"
)

const (
	usualAddress = "127.0.0.1:8080"
	anyAddress   = "127.0.0.1:0"
)

// server is a handler that is being served.
type server struct {
	url  string
	peer netip.Addr // what callers on this machine have as their address
	http http.Server
	done chan error
}

// serve begins to serve a handler. No address is the usual one, or a free port if
// that is taken.
func serve(address string, h http.Handler) (*server, error) {
	l, err := listen(address)
	if err != nil {
		return nil, err
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	peer := at.Addr().Unmap()
	if peer.IsUnspecified() {
		peer = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	s := &server{
		url:  "http://" + netip.AddrPortFrom(peer, at.Port()).String(),
		peer: peer,
		http: http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0)},
		done: make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

func listen(address string) (net.Listener, error) {
	if address != "" {
		return net.Listen("tcp", address)
	}
	if l, err := net.Listen("tcp", usualAddress); err == nil {
		return l, nil
	}
	return net.Listen("tcp", anyAddress)
}

// close ends the server, and gives requests that are under way a moment.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // those who do not go by themselves
	}
	if err := <-s.done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newAPI returns the API that the limits protect. Its routes are those of
// examples/tiers/stint.yaml.
func newAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		fmt.Fprint(w, guide("http://"+r.Host))
	})
	mux.HandleFunc("GET /structures/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]any{"id": r.PathValue("id"), "chains": 4, "atoms": 4779})
	})
	mux.HandleFunc("POST /structures/{id}/pdf", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusAccepted, map[string]any{"id": r.PathValue("id"), "pages": 12})
	})
	mux.HandleFunc("POST /simulations", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("fail") {
			reply(w, http.StatusInternalServerError, map[string]any{"error": "no machine is free"})
			return
		}
		reply(w, http.StatusCreated, map[string]any{"id": "1"})
	})
	mux.HandleFunc("GET /simulations/{id}/frames", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]any{"id": r.PathValue("id"), "frames": []int{0, 1, 2}})
	})
	mux.HandleFunc("GET /static/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		fmt.Fprintln(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="3"/></svg>`)
	})
	return mux
}

// newIGDB returns a stand-in for the API of a database of games, of which our
// workers make no more calls than it allows.
func newIGDB() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, []map[string]any{{"id": 1020, "name": "Pong"}})
	})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone: nobody to tell
}

// guide tells what is at an address, and what to try there.
func guide(url string) string {
	return fmt.Sprintf(`An API behind rate limits: %[1]s
Try it from another terminal. The numbers are those of examples/tiers/stint.yaml.

  curl -i %[1]s/structures/4hhb                           # anonymous: 20 at once, then 429
  curl -i -H 'X-User-ID: 42' %[1]s/structures/4hhb        # free: 60; with -H 'X-User-Plan: pro' 300
  curl -i -X POST %[1]s/structures/4hhb/pdf               # costs 3 of a budget of 100 an hour
  curl -i -X POST '%[1]s/simulations?fail'                # costs 10, given back when the answer is a 5xx
  curl -i %[1]s/static/logo.svg                           # never limited
  for i in $(seq 25); do curl -s -o /dev/null -w '%%{http_code} ' %[1]s/structures/4hhb; done

`, url)
}
