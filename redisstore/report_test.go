package redisstore

import (
	"strings"
	"testing"
)

func TestReportWarnings(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string // words of each warning
	}{
		{"nothing told", "", nil},
		{"well", "redis_version:7.0.15\r\nrole:master\r\nused_memory:10\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\nevicted_keys:0\r\n", nil},
		{"old", "redis_version:5.0.7\r\n", []string{"runs Redis 5.0.7; want 6.2"}},
		{"the oldest that will do", "redis_version:6.2\r\n", nil},
		{"two digits", "redis_version:10.0.1\r\n", nil},
		{"no number", "redis_version:unstable\r\n", nil},
		{"old and evicting", "redis_version:6.0.1\r\nmaxmemory_policy:volatile-ttl\r\n", []string{"6.0.1", "volatile-ttl"}},
		{"has evicted", "evicted_keys:12\r\n", []string{"evicted 12 keys"}},
		{"replica", "role:slave\r\n", []string{"is a replica"}},
		{"nearly full", "used_memory:950000\r\nmaxmemory:1000000\r\n", []string{"uses 94% of its maxmemory"}},
		{"full", "used_memory:1000\r\nmaxmemory:1\r\n", []string{"of its maxmemory"}},
		{"no bound, small", "used_memory:10\r\nmaxmemory:0\r\ntotal_system_memory:100\r\n", nil},
		{"no bound, large", "used_memory:60\r\nmaxmemory:0\r\ntotal_system_memory:100\r\n", []string{"has no maxmemory"}},
	} {
		got := report{"a:1", test.text}.warnings()
		if len(got) != len(test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
			continue
		}
		for i, words := range test.want {
			if !strings.Contains(got[i], words) || !strings.HasPrefix(got[i], "a:1 ") {
				t.Errorf("%s: %q, want %q", test.name, got[i], words)
			}
		}
	}
}

// Valkey also tells which version of Redis it is compatible with.
func TestInfoNamesTheServer(t *testing.T) {
	const redis, valkey = "redis_version:7.0.15\r\n", "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n"
	for _, test := range []struct {
		name            string
		texts           []string // of a server each
		server, version string
	}{
		{"nothing told", []string{""}, "", ""},
		{"Redis", []string{redis}, "Redis", "7.0.15"},
		{"Valkey", []string{valkey}, "Valkey", "8.0.1"},
		{"both", []string{valkey, redis}, "Redis", "7.0.15"},
		{"one that does not tell", []string{"", valkey}, "Valkey", "8.0.1"},
	} {
		var i Info
		for _, text := range test.texts {
			i.add(serverInfo{report: report{"a:1", text}})
		}
		if i.Server != test.server || i.Version != test.version || len(i.Warnings) > 0 {
			t.Errorf("%s: %q %q, want %q %q, without %q", test.name, i.Server, i.Version, test.server,
				test.version, i.Warnings)
		}
	}
}
