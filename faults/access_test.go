package faults

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/resilience"
)

func TestF29(t *testing.T) {
	fault(t, "F29", "NOAUTH, WRONGPASS, NOPERM at run time", "its own metric and log line, policy; never silently open", func(r *report) {
		limiter := []string{"ACL SETUSER limiter on >secret ~* &* +@all"}
		for _, c := range []struct {
			name               string
			user               string // of ours, with its password
			before, take, give []string
		}{
			{"NOPERM", "limiter:secret@", limiter,
				[]string{"ACL SETUSER limiter -eval -evalsha"}, []string{"ACL SETUSER limiter +eval +evalsha"}},
			{"WRONGPASS", "limiter:secret@", limiter,
				[]string{"ACL SETUSER limiter resetpass >another", "CLIENT KILL USER limiter"},
				[]string{"ACL SETUSER limiter resetpass >secret"}},
			{"NOAUTH", "", nil,
				[]string{"CONFIG SET requirepass secret", "CLIENT KILL USER default"}, []string{"ACL SETUSER default nopass"}},
		} {
			server := redistest.Start(t)
			admin := adminOf(r, server)
			admin(c.before...)
			loseAccess(r, strings.Replace(server.URL(), "redis://", "redis://"+c.user, 1), c.name,
				func() { admin(c.take...) }, func() { admin(c.give...) })
			wantTTLs(r, server)
		}
	})
}

// adminOf returns what sends commands as a user of its own, whatever becomes of the others.
func adminOf(r *report, server *redistest.Server) func(commands ...string) {
	r.Helper()
	server.CLI(r, "ACL", "SETUSER", "admin", "on", ">admin", "~*", "&*", "+@all")
	client := testkit.Must(rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, Username: "admin", Password: "admin", DisableCache: true}))(r)
	r.Cleanup(client.Close)
	return func(commands ...string) {
		r.Helper()
		for _, command := range commands {
			if err := client.Do(context.Background(),
				client.B().Arbitrary(strings.Fields(command)...).Build()).Error(); err != nil {
				r.Fatalf("%s: %v", command, err)
			}
		}
	}
}

// loseAccess has a stack of each policy at work when access is taken away, and wants it to say so,
// to do what the policy says, and to be well when access is given back.
func loseAccess(r *report, url, name string, takeAway, giveBack func()) {
	r.Helper()
	const limit = 50
	limits := []stint.Limit{stint.PerHour(limit)}
	var log testkit.Buffer
	seen := make([]*witness, 3)
	modes := []stint.FailureMode{stint.FailLocal, stint.FailDeny, stint.FailError}
	stacks := make([]stack, len(modes))
	for i, mode := range modes {
		seen[i] = newWitness()
		stacks[i] = newStack(r, url, resilience.Config{
			Failure: stint.FailurePolicy{Mode: mode, Budget: patience}, Instances: 1, Observer: seen[i],
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		take(r, stacks[i], mode.String(), limits...)
	}
	takeAway()
	lines := func() int { return logged(&log, "level=ERROR", "rejects stint's password") }
	outcomes := make([]outcome, len(modes))
	var asking sync.WaitGroup
	for i, mode := range modes {
		asking.Go(func() {
			calls := load{Subject: mode.String(), Limits: limits, Callers: 4, Pause: time.Millisecond,
				For: pick[time.Duration](700, 200) * time.Millisecond}
			outcomes[i] = driveUntil(context.Background(), stacks[i], calls, func(o *outcome) bool {
				return seen[i].failed(stint.KindAuth) > 0 && lines() > 0 &&
					(mode != stint.FailError || o.Failed[stint.KindAuth] > 0)
			})
		})
	}
	asking.Wait()
	for i, mode := range modes {
		o := &outcomes[i]
		admitted, failed := len(o.Admitted), o.failures()
		switch {
		case mode == stint.FailLocal && (admitted == 0 || admitted > limit || failed > 0),
			mode == stint.FailDeny && (admitted+failed > 0 || o.Denied == 0),
			mode == stint.FailError && (o.decisions() > 0 || o.Failed[stint.KindAuth] == 0):
			r.Errorf("%s: %v: %d admitted, %d denied, errors %v", name, mode, admitted, o.Denied, o.Failed)
		}
	}
	failures := 0
	for i, mode := range modes {
		failures += seen[i].failed(stint.KindAuth)
		if seen[i].failed(stint.KindAuth) == 0 || mode != stint.FailError && seen[i].caused(stint.KindAuth) == 0 {
			r.Errorf("%s: %v: %d failures and %d decisions without Redis of the kind auth; want some", name, mode, seen[i].failed(stint.KindAuth), seen[i].caused(stint.KindAuth))
		}
	}
	// One line each of breaker and fallback, not one per decision.
	if n := lines(); n == 0 || n > 3*len(modes) {
		r.Errorf("%s: %d lines; want one or two for each of %d stacks:\n%s", name, n, len(modes), log.String())
	}
	if logged(&log, "secret") > 0 {
		r.Errorf("%s: the log tells the password:\n%s", name, log.String())
	}
	giveBack()
	back := testkit.Eventually(r, name+": all are well", func() bool {
		for i, mode := range modes {
			if _, ok := look(stacks[i], mode.String(), limits...); !ok {
				return false
			}
		}
		return true
	})
	r.saw("%s: %d auth failures, %d ERROR lines, none let through, healthy %s after access was back",
		name, failures, lines(), short(back))
}

func TestF30(t *testing.T) {
	fault(t, "F30", "a reply that belongs to another call", "detected, a store failure", func(r *report) {
		const limit = 200
		server := redistest.Start(t)
		proxy := redistest.StartProxy(t, server.Addr())
		seen := newWitness()
		s := newStack(t, proxy.URL(), resilience.Config{
			Failure: stint.FailurePolicy{Mode: stint.FailDeny, Budget: patience}, Observer: seen})
		limits := []stint.Limit{stint.PerHour(limit)}
		take(r, s, "any", limits...)
		dials := proxy.Dials()
		proxy.SwapReplies()
		// Two subjects, one of them free: a reply that is taken for another's would let the one
		// through that is not.
		var o, free outcome
		var asking sync.WaitGroup
		span := pick(2*time.Second, 700*time.Millisecond)
		asking.Go(func() {
			free = drive(t.Context(), s, load{Subject: "free", Limits: []stint.Limit{stint.PerHour(1_000_000)},
				Callers: 4, For: span})
		})
		asking.Go(func() { o = drive(t.Context(), s, load{Limits: limits, Callers: 4, For: span}) })
		asking.Wait()
		if o.failures()+free.failures() > 0 {
			r.Errorf("errors %v %v; want the policy", o.Failed, free.Failed)
		}
		if len(o.Admitted) > limit {
			r.Errorf("%d admitted under a limit of %d", len(o.Admitted), limit)
		}
		found := seen.failed(stint.KindReply)
		if found == 0 || o.Degraded+free.Degraded == 0 {
			r.Errorf("failures %v, %d degraded; want some of the kind reply", seen.kinds, o.Degraded+free.Degraded)
		}
		// A connection that is out of step stays so.
		if proxy.Dials() == dials {
			r.Error("the connection was not replaced")
		}
		proxy.Restore()
		back := testkit.Eventually(r, "decisions again", func() bool { _, ok := look(s, "shared", limits...); return ok })
		used, _ := look(s, "shared", limits...)
		if used < int64(len(o.Admitted)) {
			r.Errorf("%d admitted, %d charged", len(o.Admitted), used)
		}
		r.saw("%d wrong replies found, %d of %d admitted under a limit of %d, healthy %s after", found, len(o.Admitted), o.decisions(), limit, short(back))
		wantTTLs(r, server)
	})
}
