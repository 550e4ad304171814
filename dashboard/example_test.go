package dashboard_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/stint-limiter/stint/dashboard"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/observe"
)

// A program serves the dashboard next to its own pages. Only its staff sees data and may change
// something.
func ExampleNew() {
	store, _ := memorystore.New(memorystore.Config{})
	defer store.Close()
	monitor, err := observe.New(observe.Config{}) // the observer of your guards
	if err != nil {
		log.Fatal(err)
	}
	defer monitor.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends the page's streams
	board, err := dashboard.New(ctx, dashboard.Config{
		Monitor: monitor, Store: store, Protect: staffOnly,
		Who: func(r *http.Request) (name string, operates bool) { return staffName(r), true },
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/limits/", http.StripPrefix("/limits", board))

	for _, path := range []string{"/limits/", "/limits/api/state"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code) // the page has no data, its API has
	}
	// Output:
	// /limits/ 200
	// /limits/api/state 401
}

// staffOnly lets only staff through.
func staffOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if staffName(r) == "" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// staffName is who sent a request, as the program knows them; "" if it is not one of the staff.
func staffName(r *http.Request) string {
	name, password, _ := r.BasicAuth()
	if password != "correct horse" {
		return ""
	}
	return name
}
