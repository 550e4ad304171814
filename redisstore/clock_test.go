package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
)

// A clock that is set makes the first call late by mistake, or sends it the wrong days: it is made
// again.
func TestAServersClockThatIsSetLosesNoCall(t *testing.T) {
	const by = 72 * time.Hour
	server := redistest.StartFakeTime(t)
	s := open(t, server.URL())
	request := unit("a", stint.Daily(1000))
	for _, offset := range []time.Duration{0, by, -by, 0} {
		server.SetClockOffset(t, offset)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if d, err := s.Take(ctx, request); err != nil || !d.Allowed {
				t.Errorf("offset %v: %+v, %v", offset, d, err)
			}
			deadline, _ := ctx.Deadline()
			batch := []*driver.Call{{Request: request, Deadline: deadline}, {Request: request, Deadline: deadline}}
			s.TakeBatch(ctx, batch)
			for _, call := range batch {
				if call.Err != nil || !call.Decision.Allowed || call.Decision.Usages()[0].Used == 0 {
					t.Errorf("offset %v, batch: %+v, %v", offset, call.Decision, call.Err)
				}
			}
			cancel()
		}
	}
}

// A memory has another name after it has lost something that a process knew of: a call of its own,
// or the number of all calls.
func TestPresenceNoticesALoss(t *testing.T) {
	server := redistest.StartFakeTime(t)
	s := open(t, server.URL())
	last := map[string]driver.Presence{}
	call := func(id string) (lost bool) {
		t.Helper()
		before := last[id]
		before.ID = id
		p := testkit.Must(s.Present(t.Context(), before))(t)
		last[id] = p
		return before.Memory != "" && p.Memory != before.Memory
	}
	want := func(what string, id string, lost bool) {
		t.Helper()
		if got := call(id); got != lost {
			t.Errorf("%s: %s is told %v; want %v", what, id, got, lost)
		}
	}
	const key = "stint:instances"
	for range 3 {
		want("nothing is lost", "a", false)
		want("nothing is lost", "b", false)
	}
	copied := server.CLI(t, "DUMP", key)
	want("nothing is lost", "a", false)
	server.CLI(t, "RESTORE", key, "0", copied, "REPLACE")
	want("its last call is lost", "a", true)
	want("it was told by another", "b", true)
	want("it was told before", "a", false)

	server.SetClockOffset(t, 20*time.Second) // longer than calls are kept
	copied = server.CLI(t, "DUMP", key)
	for range 5 {
		want("nothing is lost", "b", false)
	}
	server.CLI(t, "RESTORE", key, "0", copied, "REPLACE")
	server.SetClockOffset(t, 40*time.Second)
	want("later calls are lost", "b", true)
	want("it was told by another", "a", true)

	unanswered := last["a"]
	want("nothing is lost", "a", false)
	last["a"] = unanswered
	want("the answer to its last call was lost", "a", false)

	server.CLI(t, "FLUSHALL")
	want("all is lost", "a", true)
	want("all is lost", "b", true)
	for _, offset := range []time.Duration{-time.Hour, time.Hour} {
		server.SetClockOffset(t, offset)
		want("the clock was set", "a", false)
		want("the clock was set", "b", false)
	}
}

func TestPresence(t *testing.T) {
	server := redistest.StartFakeTime(t)
	s := open(t, server.URL())
	count := func(id string) int {
		t.Helper()
		p := testkit.Must(s.Present(t.Context(), driver.Presence{ID: id}))(t)
		return p.Processes
	}
	if a, b, again := count("a"), count("b"), count("a"); a != 1 || b != 2 || again != 2 {
		t.Errorf("counted %d, %d, %d; want 1, 2, 2", a, b, again)
	}
	server.SetClockOffset(t, 11*time.Second)
	if n := count("c"); n != 1 {
		t.Errorf("%d are present; want those of the last ten seconds, 1", n)
	}
	server.SetClockOffset(t, -time.Hour)
	if n := count("d"); n != 1 {
		t.Errorf("%d are present after the clock was set back; want 1", n)
	}
	if n := count("c"); n != 2 {
		t.Errorf("%d are present; want 2", n)
	}
	server.SetClockOffset(t, -time.Hour-5*time.Second)
	if n := count("d"); n != 2 {
		t.Errorf("%d are present for a server whose clock is a little behind; want 2", n)
	}
	if keys := redistest.KeysWithoutTTL(t, server); len(keys) > 0 {
		t.Errorf("without a TTL: %q", keys)
	}
}
