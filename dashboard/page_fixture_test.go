package dashboard_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-limiter/stint/dashboard"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/answer"
	"github.com/stint-limiter/stint/internal/server/control"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/observe"
)

// fixture serves the page with a scripted API: the page is tested by itself, and what it is
// told is up to the test.
type fixture struct {
	URL string

	mu       sync.Mutex
	state    dashboard.State
	subjects map[string]control.Subject // by name and by ref
	subject  any                        // the answer for every subject, unless it is nil
	bans     []control.Ban
	reports  []observe.ShadowReport
	token    string // demanded if it is not ""
	broken   bool   // every call is answered 503
	loading  func() // called before the state is answered, unless it is nil
	writes   []write
	streams  map[chan observe.Tick]chan struct{}
	begun    int // streams, so far
}

// write is a POST that the page made.
type write struct {
	path, body, token string
}

// newFixture serves a quiet, healthy state.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		subjects: map[string]control.Subject{},
		streams:  map[chan observe.Tick]chan struct{}{},
		state: dashboard.State{
			Version: "1.2.3", Writable: true, Who: "ops",
			Alerts: []observe.Alert{{Name: "BlockedShare", Severity: "ticket", State: "ok", Unit: "share",
				Threshold: 0.1}},
			Store: observe.StoreHealth{Kind: "memory", Name: "memory", Up: true, Subjects: 12, Bytes: 4096,
				MaxBytes: 1 << 20},
			Top:    map[string][]observe.Offender{},
			Config: dashboard.ConfigState{Phase: "ready"},
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/state", f.result(f.showState))
	mux.HandleFunc("GET /api/bans", f.result(f.show("bans", &f.bans)))
	mux.HandleFunc("GET /api/shadow", f.result(f.show("reports", &f.reports)))
	mux.HandleFunc("GET /api/subject", f.result(f.showSubject))
	mux.HandleFunc("GET /api/stream", f.result(f.stream))
	mux.HandleFunc("POST /api/{act}", f.result(f.act))
	page := testkit.Must(dashboard.Page(mux))(t)
	server := httptest.NewServer(page)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	t.Cleanup(f.cut)
	f.URL = server.URL
	return f
}

// result demands the token.
func (f *fixture) result(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		token, broken := f.token, f.broken
		f.mu.Unlock()
		switch {
		case broken:
			answer.Refuse(w, http.StatusServiceUnavailable, "unavailable", "The fixture is broken.")
		case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
			answer.Refuse(w, http.StatusUnauthorized, "unauthorized", "A token is required.")
		default:
			next(w, r)
		}
	}
}

func (f *fixture) showState(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	loading := f.loading
	f.mu.Unlock()
	if loading != nil {
		loading()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Now = time.Now()
	answer.JSON(w, http.StatusOK, f.state)
}

// show answers with a list under a name.
func (f *fixture) show(name string, list any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer.JSON(w, http.StatusOK, map[string]any{name: list})
	}
}

func (f *fixture) showSubject(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subject != nil {
		answer.JSON(w, http.StatusOK, f.subject)
		return
	}
	s, ok := f.subjects[r.FormValue("subject")+r.FormValue("ref")]
	if !ok {
		answer.Refuse(w, http.StatusNotFound, "unknown_ref", "No such subject.")
		return
	}
	answer.JSON(w, http.StatusOK, s)
}

func (f *fixture) act(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.state.Writable {
		answer.Refuse(w, http.StatusForbidden, "forbidden", "Nothing can be changed.")
		return
	}
	if r.Header.Get("Content-Type") != "application/json" {
		answer.Refuse(w, http.StatusUnsupportedMediaType, "media", "Want JSON.")
		return
	}
	f.writes = append(f.writes, write{r.URL.Path, strings.TrimSpace(string(body)), r.Header.Get("Authorization")})
	answer.JSON(w, http.StatusOK, map[string]bool{"ok": true})
}

func (f *fixture) stream(w http.ResponseWriter, r *http.Request) {
	ticks, end := make(chan observe.Tick, 10_000), make(chan struct{})
	f.mu.Lock()
	f.streams[ticks] = end
	f.begun++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, ticks)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	for {
		rc.Flush()
		select {
		case tick := <-ticks:
			body, err := json.Marshal(tick)
			if err != nil {
				return
			}
			fmt.Fprintf(w, "event: tick\ndata: %s\n\n", body)
		case <-time.After(time.Second): // pages disconnect from a server that is silent for ten seconds
			fmt.Fprint(w, ":\n\n")
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// tick sends a tick to every page, of a second that the state does not have unless it says so.
func (f *fixture) tick(tick observe.Tick) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tick.Point.At == 0 {
		tick.Point.At = time.Now().Unix()
		if n := len(f.state.Points); n > 0 {
			tick.Point.At = max(tick.Point.At, f.state.Points[n-1].At+1)
		}
	}
	if tick.Store.Kind == "" {
		tick.Store = f.state.Store
	}
	for ticks := range f.streams {
		ticks <- tick
	}
}

// cut ends all streams.
func (f *fixture) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, end := range f.streams {
		close(end)
	}
	clear(f.streams)
}

// change changes what pages are told from now on.
func (f *fixture) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// listeners is how many streams are open, of so many that were begun.
func (f *fixture) listeners() (open, begun int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.streams), f.begun
}

// written are the POSTs so far.
func (f *fixture) written() []write {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.writes)
}

// subject is one that has used nothing, unless limits are given.
func subject(name string, limits ...control.Limit) control.Subject {
	return control.Subject{Named: control.Named{Subject: name}, Now: time.Now(), Limits: limits}
}

// ban is a ban that ends some time from now.
func ban(subject, ref string, left time.Duration, level int) control.Ban {
	return control.Ban{Ref: ref, Banned: driver.Banned{Subject: subject,
		BanState: driver.BanState{Until: time.Now().Add(left), Level: level}}}
}

// denial is a violation as the monitor tells it.
func denial(subject, tier, policy string) observe.Violation {
	return observe.Violation{At: time.Now(), Subject: subject, Ref: "r-" + subject, Tier: tier, Policy: policy,
		Limit: "10/1m", Reason: "limit", RetryAfter: 12.5}
}

// counted is a second in which so much was decided.
func counted(allowed, denied int64) observe.Point {
	return observe.Point{Counts: observe.Counts{Allowed: allowed, Denied: denied}, P50: 0.02e-3, P99: 0.4e-3,
		Calls: allowed, StoreP50: 0.3e-3, StoreP99: 1.2e-3}
}
