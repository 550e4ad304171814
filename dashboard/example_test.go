package dashboard_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/dashboard"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
	"github.com/stint-limiter/stint/policy"
)

// A program with limits of its own has the dashboard where its staff can see it.
func ExampleNew() {
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	conf, err := config.Parse("stint.yaml", []byte("tiers: [{name: all, identity: ip, limits: 100/1m}]"))
	if err != nil {
		log.Fatal(err)
	}
	monitor := observe.New(observe.Config{})
	defer monitor.Close()
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Observer: monitor})
	if err != nil {
		log.Fatal(err)
	}

	staff := func(r *http.Request) (name string, operates bool) { // as the program knows them
		name, password, _ := r.BasicAuth()
		if password != "correct horse" {
			return "", false
		}
		return name, name != "guest"
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends the page's streams
	board, err := dashboard.New(ctx, dashboard.Config{
		Monitor: monitor,
		Store:   store,
		Set:     guard.Set,
		Who:     staff,
		Guard: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if name, _ := staff(r); name == "" {
					w.Header().Set("WWW-Authenticate", "Basic")
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				next.ServeHTTP(w, r)
			})
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/limits/", http.StripPrefix("/limits", board))

	for _, path := range []string{"/limits/", "/limits/api/state"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /limits/ 200
	// /limits/api/state 401
}
