package dashboard

import (
	"net/http"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/server/control"
)

func TestBans(t *testing.T) {
	for _, full := range []bool{false, true} {
		r := newRig(t, func(c *Config) { c.ShowSubjects = full })
		want := map[bool]string{false: r.short("user:mallory"), true: "user:mallory"}[full]
		var list struct{ Bans []control.Ban }
		if r.get("/api/bans", &list); list.Bans == nil || len(list.Bans) != 0 {
			t.Errorf("got %+v, want an empty list", list.Bans)
		}
		if _, err := r.board.admin.Ban(t.Context(), control.Target{Subject: "user:alice"}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if status, text := r.post("/api/ban", `{"subject": "user:mallory", "for": "1h"}`); status != 200 {
			t.Fatalf("got %d, %s", status, text)
		}
		r.get("/api/bans", &list)
		if len(list.Bans) != 2 || list.Bans[0].Subject != want || time.Until(list.Bans[0].Until) < 59*time.Minute {
			t.Fatalf("got %+v", list.Bans)
		}
		if r.get("/api/bans?n=1", &list); len(list.Bans) != 1 {
			t.Errorf("got %d bans, want 1", len(list.Bans))
		}
		var s control.Subject
		if r.get("/api/subject?ref="+list.Bans[0].Ref, &s, asAlice); s.Subject != "user:mallory" ||
			s.Ban.Until.IsZero() {
			t.Errorf("got %+v", s)
		}
		if status, text := r.post("/api/unban", `{"ref": "`+list.Bans[0].Ref+`"}`); status != 200 {
			t.Fatalf("got %d, %s", status, text)
		}
		if r.get("/api/bans", &list); len(list.Bans) != 1 || list.Bans[0].Subject != "user:alice" {
			t.Errorf("after unban: got %+v", list.Bans)
		}
	}
}

// TestBansAreCached: a list that took long is reused for a while, for callers that ask for as many
// or fewer.
func TestBansAreCached(t *testing.T) {
	r := newRig(t)
	b, admin := &r.board.bans, r.board.admin
	listed := func(what string, n, want int) {
		t.Helper()
		if list, err := b.get(t.Context(), admin, n); err != nil || len(list) != want {
			t.Errorf("%s: got %d, %v; want %d", what, len(list), err, want)
		}
	}
	add := func(subject string) {
		if _, err := admin.Ban(t.Context(), control.Target{Subject: subject}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	add("user:1")
	add("user:2")
	listed("all", 2, 2)
	b.took = time.Hour
	add("user:3")
	listed("fewer than there are", 1, 1)
	listed("more than were asked for before: all that there are now", 10, 3)
	b.took = time.Hour
	add("user:4")
	listed("more, when there were no more: those of before", 100, 3)
	b.changed.Store(true)
	listed("after a change", 10, 4)
}

// TestNotInspectable says that a store cannot be looked into, and goes on without.
func TestNotInspectable(t *testing.T) {
	for name, adjust := range map[string]func(*Config){
		"no store":     func(c *Config) { c.Store = nil },
		"no inspector": func(c *Config) { c.Store = struct{ stint.Store }{c.Store} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, adjust)
			r.refused(http.StatusNotImplemented, "unsupported", http.MethodGet, "/api/bans", "")
			r.refused(http.StatusNotImplemented, "unsupported", http.MethodGet, "/api/subject?subject=user:1", "")
		})
	}
}
