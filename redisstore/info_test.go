package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/internal/testkit"
	"github.com/stint-limiter/stint/redisstore"
)

func infoOf(t *testing.T, s *redisstore.Store) redisstore.Info {
	t.Helper()
	return testkit.Must(s.Info(t.Context()))(t)
}

// wantWarning wants one warning with these words, or none without any.
func wantWarning(t *testing.T, i redisstore.Info, words ...string) {
	t.Helper()
	if len(words) == 0 {
		if len(i.Warnings) > 0 {
			t.Errorf("warnings %q, want none", i.Warnings)
		}
		return
	}
	for _, w := range words {
		if text := strings.Join(i.Warnings, "\n"); !strings.Contains(text, w) {
			t.Errorf("no %q in the warnings %q", w, i.Warnings)
		}
	}
}

func TestInfo(t *testing.T) {
	server := redistest.Start(t, "--maxmemory", "100mb")
	s := open(t, server.URL())
	before := infoOf(t, s).Keys
	allows(t, s)
	i := infoOf(t, s)
	if i.Mode != "standalone" || i.Masters != 1 || i.Server == "" || i.Version == "" || i.Role != "master" {
		t.Errorf("mode %q, %d masters, %s %q, role %q", i.Mode, i.Masters, i.Server, i.Version, i.Role)
	}
	if i.MaxMemory != 100<<20 || i.UsedMemory == 0 || i.MaxMemoryPolicy != "noeviction" || i.Evicted != 0 {
		t.Errorf("%d of %d bytes, %q, %d evicted", i.UsedMemory, i.MaxMemory, i.MaxMemoryPolicy, i.Evicted)
	}
	if i.Keys != before+1 || i.Clients == 0 {
		t.Errorf("%d keys, %d clients", i.Keys, i.Clients)
	}
	if ahead, ok := i.ClockAhead[server.Addr()]; !ok || ahead.Abs() > time.Minute {
		t.Errorf("the clock of this host is %v ahead of itself", i.ClockAhead)
	}
	wantWarning(t, i)

	// F27: a server that may evict is reported for as long as it may.
	server.CLI(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	wantWarning(t, infoOf(t, s), "may evict limits before they expire", "allkeys-lru")
	server.CLI(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	wantWarning(t, infoOf(t, s))

	server.CLI(t, "REPLICAOF", "127.0.0.1", "1")
	if i := infoOf(t, s); i.Role != "replica" {
		t.Errorf("role %q, want replica", i.Role)
	}
	wantWarning(t, infoOf(t, s), "is a replica")
	server.CLI(t, "REPLICAOF", "NO", "ONE")

	server.CLI(t, "ACL", "SETUSER", "default", "-info", "-dbsize", "-scan")
	if i := infoOf(t, s); i.Version != "" || i.Masters != 1 {
		t.Errorf("version %q, %d masters; want only what is permitted", i.Version, i.Masters)
	}
	wantWarning(t, infoOf(t, s), "+info +dbsize")
	_, bans := s.Bans(t.Context(), 1)
	_, scopes := s.Scopes(t.Context(), "user:1")
	for op, err := range map[string]error{"bans": bans, "scopes": scopes} {
		var failed *stint.StoreError
		if !errors.As(err, &failed) || failed.Op != op || failed.Kind != stint.KindAuth {
			t.Errorf("%s: %v, want that a permission is missing", op, err)
		}
	}

	server.Kill()
	var failed *stint.StoreError
	if _, err := s.Info(t.Context()); !errors.As(err, &failed) || failed.Op != "info" {
		t.Errorf("a server that is away: %v, want a StoreError", err)
	}
}

func infoIsAddedUp(t *testing.T, cluster *redistest.Cluster) {
	s := open(t, cluster.URL())
	before := infoOf(t, s).Keys
	const subjects = 60
	for n := range subjects {
		subject := fmt.Sprint("user:", n)
		take(t, s, unit(subject, stint.PerHour(1)))
		command(t, s, stint.Command{Kind: stint.CommandBan, Subject: subject, For: time.Hour})
	}
	i := infoOf(t, s)
	if i.Mode != "cluster" || i.Masters != 3 || i.Keys-before != 2*subjects || i.Role != "master" {
		t.Errorf("mode %q, %d masters, %d more keys, role %q; want cluster, 3, %d, master", i.Mode, i.Masters, i.Keys-before, i.Role, 2*subjects)
	}
	wantWarning(t, i)
	if bans, err := s.Bans(t.Context(), 2*subjects); err != nil || len(bans) != subjects {
		t.Errorf("%d bans, %v; want those of all masters, %d", len(bans), err, subjects)
	}
}
