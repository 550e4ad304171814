package api

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/memorystore"
	"github.com/stint-limiter/stint/policy"
)

// Whatever is sent is answered: with mistakes or with a decision, never with a panic, and never
// half read.
func FuzzTake(f *testing.F) {
	for _, body := range []string{
		`{"method":"POST","path":"/login","peer":"203.0.113.9","claims":{"user":"42"},"headers":{"X-Api-Key":"k"},"host":"a:1"}`,
		`{"subject":"user:42","policy":"login","tier":"all","scope":"s","cost":1,"id":"x","max_wait_seconds":5,"mode":"peek"}`,
		`{"subject":"user:42","limits":["100/1m burst 3x","5/1s bucket"],"cost":5}`,
		`{"requests":[{"subject":"a","tier":"all"},{"mode":"reserve","subject":"a","tier":"all"}]}`,
		`{"charge":"AAAA","cost":5}`, `{"a":{"b":[[{"c":null}]]},"a":true,"subject":"\ud800"}`, `[`, ``, `{"cost":1e9}`,
	} {
		f.Add(body)
	}
	conf, err := config.Parse("test.yaml", []byte("tiers: [{name: all, identity: ip, limits: 5/1m, budget: 9/1h}]\npolicies: [{name: login, match: {path: /login}, limits: 2/1m}]"))
	if err != nil {
		f.Fatal(err)
	}
	store, err := memorystore.New(memorystore.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { store.Close() })
	logger := slog.New(slog.DiscardHandler)
	guard, err := policy.NewGuard(store, conf.Set, policy.GuardConfig{Logger: logger})
	if err != nil {
		f.Fatal(err)
	}
	a, err := New(guard, store, Config{Public: true, Known: true, AdHoc: true, Logger: logger})
	if err != nil {
		f.Fatal(err)
	}
	a.EndWaits() // no body waits
	handler := a.Handler()
	f.Fuzz(func(t *testing.T, body string) {
		for path := range posts {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			switch w.Code {
			case 200, 400, 413, 429:
			case 503:
				if path != "/v1/wait" {
					t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
				}
			default:
				t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: the answer is not JSON: %s", path, w.Body)
			}
			if w.Code == 200 && !json.Valid([]byte(body)) {
				t.Errorf("%s: accepted what is not JSON", path)
			}
		}
	})
}

func TestInteger(t *testing.T) {
	for _, test := range []struct {
		number string
		want   int64
		ok     bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"0.0", 0, true}, {"0e9", 0, true}, {"7", 7, true}, {"-7", -7, true},
		{"1.0", 1, true},
		{"1e0", 1, true}, {"1E+2", 100, true}, {"100e-2", 1, true}, {"0.10e1", 1, true}, {"1.25e2", 125, true},
		{"1200", 1200, true},
		{"9007199254740992.0", 9007199254740992, true}, {"9223372036854775807", 9223372036854775807, true},
		{"1.5", 0, false}, {"1.00000000000000000001", 0, false}, {"9007199254740992.5", 0, false}, {"1e-1", 0, false},
		{"1e400", 0, false}, {"1e99999999999999999999", 0, false}, {"9223372036854775808", 0, false},
	} {
		if got, ok := integer(test.number); ok != test.ok || ok && got != test.want {
			t.Errorf("%s: got %d, %v, want %d, %v", test.number, got, ok, test.want, test.ok)
		}
	}
}
