package redistest

import (
	"slices"
	"strings"
	"testing"
)

// KeysWithoutTTL returns our keys, those that begin with "stint:", that would stay forever, sorted.
// It skips replicas and servers that do not run, so all nodes of a cluster may be passed.
func KeysWithoutTTL(t testing.TB, servers ...*Server) []string {
	t.Helper()
	var found []string
	for _, srv := range servers {
		if srv.proc == nil || !strings.HasPrefix(srv.CLI(t, "ROLE"), "master") {
			continue
		}
		cursor, keys := srv.scan(t, "0")
		for {
			found = append(found, srv.withoutTTL(t, keys)...)
			if cursor == "0" {
				break
			}
			cursor, keys = srv.scan(t, cursor)
		}
	}
	slices.Sort(found)
	return slices.Compact(found) // SCAN may return a key twice
}

func (s *Server) scan(t testing.TB, cursor string) (next string, keys []string) {
	t.Helper()
	replies, err := s.pipeline([]string{"SCAN", cursor, "MATCH", "stint:*", "COUNT", "1000"})
	if err != nil {
		t.Fatalf("redistest: SCAN: %v", err)
	}
	reply, ok := replies[0].([]any)
	if !ok || len(reply) != 2 {
		t.Fatalf("redistest: SCAN: %v", replies[0])
	}
	return text(reply[0]), texts(reply[1])
}

func (s *Server) withoutTTL(t testing.TB, keys []string) (found []string) {
	t.Helper()
	commands := make([][]string, len(keys))
	for i, key := range keys {
		commands[i] = []string{"PTTL", key}
	}
	replies, err := s.pipeline(commands...)
	if err != nil {
		t.Fatalf("redistest: PTTL: %v", err)
	}
	for i, reply := range replies {
		if err, failed := reply.(error); failed {
			t.Fatalf("redistest: PTTL: %v", err)
		}
		if reply == "-1" { // -2 is a key that has gone in the meantime
			found = append(found, keys[i])
		}
	}
	return found
}
