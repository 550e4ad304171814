package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stint-limiter/stint/httplimit"
	"github.com/stint-limiter/stint/outbound"
)

// serveLocal serves a handler on a free port of this machine until stop is called.
func serveLocal(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) }) // runs until the server is closed
	return "http://" + l.Addr().String(), func() {
		_ = s.Close() // not Shutdown, because no client is waiting for a response
		serving.Wait()
	}, nil
}

// newDemoAPI returns the application behind the gateway. It serves the routes of examples/tiers,
// and the external API that the demo calls.
func newDemoAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{
			"try": []string{"GET /api/pdb/4hhb", "POST /api/simulation/start", "POST /api/export/pdf"}})
	})
	mux.HandleFunc("GET /api/pdb/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]any{"id": r.PathValue("id"), "chains": 4, "atoms": 4779})
	})
	mux.HandleFunc("POST /api/export/pdf", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusAccepted, map[string]any{"pages": 12})
	})
	mux.HandleFunc("POST /api/simulation/start", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("fail") {
			reply(w, http.StatusInternalServerError, map[string]any{"error": "no machine is free"})
			return
		}
		reply(w, http.StatusCreated, map[string]any{"id": "1"})
	})
	mux.HandleFunc("GET /api/simulation/{id}/frames", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]any{"id": r.PathValue("id"), "frames": []int{0, 1, 2}})
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusUnauthorized, map[string]any{"error": "wrong password"})
	})
	mux.HandleFunc("GET /static/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="3"/></svg>`)
	})
	mux.HandleFunc("GET /games", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, []map[string]any{{"id": 1020, "name": "Pong"}})
	})
	return mux
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client is gone
}

const (
	// pretendAPI is the name of the external API in examples/tiers that the demo calls.
	pretendAPI = "igdb"
	// demoWorkers is the number of workers that call pretendAPI, each as fast as the limits permit.
	demoWorkers = 6
)

// callPretendAPI calls the API until the context ends. Each call waits until the limits permit it.
// A worker whose call fails pauses for a second, because a change to the limits may have removed
// the API.
func callPretendAPI(ctx context.Context, apis *outbound.Registry, url string) {
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	var work sync.WaitGroup
	for range demoWorkers {
		work.Go(func() {
			for ctx.Err() == nil {
				api, err := apis.API(pretendAPI)
				if err == nil {
					err = call(ctx, &http.Client{Transport: httplimit.NewTransport(api, base)}, http.MethodGet,
						url+"/games", nil)
				}
				if err != nil {
					pause(ctx, time.Second)
				}
			}
		})
	}
	work.Wait()
}

// call makes a request and discards the response, whatever its status is. It reads the whole body,
// so that the connection can be reused.
func call(ctx context.Context, client *http.Client, method, url string, header http.Header) error {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	r.Header = header.Clone()
	got, err := client.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, got.Body)
	return errors.Join(err, got.Body.Close())
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
