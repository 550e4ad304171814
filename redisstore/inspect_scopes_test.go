package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/redistest"
)

// takeIn charges a unit in a scope.
func takeIn(t *testing.T, s stint.Store, subject, scope string) {
	t.Helper()
	_, err := s.Take(t.Context(), stint.Request{
		Claims: []stint.Claim{{Subject: subject, Scope: scope, Cost: 1, Limits: []stint.Limit{stint.PerHour(10)}}}})
	if err != nil {
		t.Fatal(err)
	}
}

func wantScopes(t *testing.T, s driver.Inspector, subject string, want ...string) {
	t.Helper()
	got, err := s.Scopes(t.Context(), subject)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("scopes of %.40s are %q, %v; want %q", subject, got, err, want)
	}
}

// Neither prefixes nor subjects are patterns, and what else has keys is not listed.
func TestScopesAmongManyKeys(t *testing.T) {
	server := redistest.Start(t)
	plain, star := open(t, server.URL(), prefixed("axb")), open(t, server.URL(), prefixed("a*b"))
	for i := range 3000 {
		takeIn(t, plain, fmt.Sprint("user:", i), "item:1")
	}
	takeIn(t, plain, "user:7", "item:2")
	takeIn(t, plain, "user:*", "item:3")
	takeIn(t, star, "user:7", "item:4")
	server.CLI(t, "SET", "axb:{user:7}:elsewhere:other", "1")
	server.CLI(t, "SET", "axb:{user:7}", "1")
	wantScopes(t, plain, "user:7", "item:1", "item:2")
	wantScopes(t, plain, "user:*", "item:3")
	wantScopes(t, star, "user:7", "item:4")
	wantScopes(t, star, "user:8")
}

// A hash stands for a scope that is too long; a subject that is too long is asked for by name all
// the same.
func TestScopesThatAreTooLong(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	long := strings.Repeat("x", 1000)
	takeIn(t, s, long, "item:"+long)
	takeIn(t, s, long, "item:1")
	got, err := s.Scopes(t.Context(), long)
	if err != nil || len(got) != 2 || got[0] != "item:1" || got[1][0] != '~' {
		t.Errorf("scopes are %q, %v; want item:1 and a hash", got, err)
	}
}

// The node of a subject's slot is asked, and no other.
func scopesAreOfOneNode(t *testing.T, cluster *redistest.Cluster) {
	for _, node := range cluster.Nodes {
		node.CLI(t, "CONFIG", "RESETSTAT")
	}
	s := open(t, clusterURL(cluster))
	const subjects = 50
	for i := range subjects {
		takeIn(t, s, fmt.Sprint("user:", i), fmt.Sprint("item:", i))
	}
	for i := range subjects {
		wantScopes(t, s, fmt.Sprint("user:", i), fmt.Sprint("item:", i))
	}
	c, scans := client(t, clusterURL(cluster)), 0
	for _, node := range c.Nodes() {
		stats, err := node.Do(t.Context(), node.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		if _, after, ok := strings.Cut(stats, "cmdstat_scan:calls="); ok {
			n := 0
			if _, err := fmt.Sscanf(after, "%d,", &n); err != nil {
				t.Fatal(err)
			}
			scans += n
		}
	}
	if scans != subjects {
		t.Errorf("%d scans for %d subjects, want one each", scans, subjects)
	}
}

func TestScopesNeedPermission(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	server.CLI(t, "ACL", "SETUSER", "default", "-scan")
	var failed *stint.StoreError
	if _, err := s.Scopes(t.Context(), "user:1"); !errors.As(err, &failed) || failed.Op != "scopes" ||
		failed.Kind != stint.KindAuth {
		t.Errorf("error %v, want that of a permission", err)
	}
}
