package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/redistest"
	"github.com/stint-limiter/stint/redisstore"
)

func infoOf(t *testing.T, s *redisstore.Store) redisstore.Info {
	t.Helper()
	i, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
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
}

// F27: a server that may evict is told of at the start, and for as long as it may.
func TestInfoWarnsOfEviction(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	s := open(t, server.URL())
	wantWarning(t, infoOf(t, s), "may evict limits before they expire", "allkeys-lru")
	server.CLI(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	wantWarning(t, infoOf(t, s))
}

func TestInfoWarnsOfReplicas(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	server.CLI(t, "REPLICAOF", "127.0.0.1", "1")
	i := infoOf(t, s)
	if i.Role != "replica" {
		t.Errorf("role %q, want replica", i.Role)
	}
	wantWarning(t, i, "is a replica")
}

func TestInfoWithoutPermissions(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	server.CLI(t, "ACL", "SETUSER", "default", "-info", "-dbsize")
	i := infoOf(t, s)
	if i.Version != "" || i.Masters != 1 {
		t.Errorf("version %q, %d masters; want what is permitted, and no more", i.Version, i.Masters)
	}
	wantWarning(t, i, "+info +dbsize")
}

func infoIsAddedUp(t *testing.T, cluster *redistest.Cluster) {
	s := open(t, clusterURL(cluster))
	before := infoOf(t, s).Keys
	const subjects = 60
	for n := range subjects {
		r := stint.Request{Claims: []stint.Claim{{Subject: fmt.Sprint("user:", n), Cost: 1,
			Limits: []stint.Limit{stint.PerHour(1)}}}}
		if _, err := s.Take(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := s.Command(t.Context(),
			stint.Command{Kind: stint.CommandBan, Subject: r.Claims[0].Subject, For: time.Hour}); err != nil {
			t.Fatal(err)
		}
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

func TestInfoOfAServerThatIsAway(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	server.Kill()
	var failed *stint.StoreError
	if _, err := s.Info(t.Context()); !errors.As(err, &failed) || failed.Op != "info" {
		t.Errorf("error %v, want a StoreError", err)
	}
}
