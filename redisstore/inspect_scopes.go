package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
)

// Scopes lists the scopes in which something is counted of a subject. See [stint.Inspector]. It scans the keys of the
// server that has the subject's, as many as there are, a thousand at a time, until it has found MaxScopes. Those of a slot
// that is just being moved in a Cluster may be missing. The user needs the permission scan.
func (s *Store) Scopes(ctx context.Context, subject string) ([]string, error) {
	if err := (stint.Claim{Subject: subject}).ValidateInspect(); err != nil {
		return nil, err
	}
	k := keys{store: s}
	k.tag(subject)
	begin := string(k.buf)
	nodes, err := s.holders(ctx, begin)
	found := map[string]struct{}{}
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		if err == nil {
			err = listScopes(ctx, nodes[addr], begin, found)
		}
	}
	if err != nil {
		return nil, s.wrap("scopes", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// holders returns the servers that may hold a key, by address: of a Cluster the master of its slot, or all nodes if that
// has another address than those that the client knows.
func (s *Store) holders(ctx context.Context, key string) (map[string]rueidis.Client, error) {
	client := s.conn.get()
	all := client.Nodes()
	if !s.cluster {
		return all, nil
	}
	owners, _, err := mastersOf(ctx, client)
	if err != nil {
		return nil, err
	}
	about := client.B().Get().Key(key).Build()
	addr := ownerOf(owners, about.Slot())
	if node, ok := all[addr]; ok {
		return map[string]rueidis.Client{addr: node}, nil
	}
	return all, nil
}

// ownerOf returns the address of the master of a slot, given those of ranges of slots in order. See ownersOf.
func ownerOf(owners []string, slot uint16) (addr string) {
	for _, owner := range owners {
		first, at, _ := strings.Cut(owner, " ")
		if first > fmt.Sprintf("%05d", slot) {
			break
		}
		addr = at
	}
	return addr
}

// listScopes adds the scopes of a server's keys with that beginning, which ends with the subject, until there are
// MaxScopes.
func listScopes(ctx context.Context, node rueidis.Client, begin string, found map[string]struct{}) error {
	pattern := escapeGlob(begin) + "*"
	for cursor := uint64(0); ; {
		keys, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		for _, key := range keys.Elements {
			if len(found) == stint.MaxScopes {
				return nil
			}
			if scope, ok := scopeIn(strings.TrimPrefix(key, begin)); ok {
				found[scope] = struct{}{}
			}
		}
		if cursor = keys.Cursor; cursor == 0 {
			return nil
		}
	}
}

// scopeIn returns the scope in what follows the subject in a key, or its hash if only that is known, if the key is that of
// a limit: its ID is the last part, and has a slash in it, as that of nothing else has.
func scopeIn(rest string) (scope string, ok bool) {
	text, id, scoped := strings.Cut(rest, ":")
	if !scoped {
		text, id = "", rest
	}
	if !strings.Contains(id, "/") {
		return "", false
	}
	if scope, ok := readPart(text); ok {
		return scope, true
	}
	return text, true
}
