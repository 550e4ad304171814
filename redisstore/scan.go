package redisstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// scanCount is the approximate number of keys that the server examines in one call. The server does
// nothing else during that call.
const scanCount = 1000

// scan calls f with the keys that match a pattern on the given servers, one or more keys at a time,
// until f returns false. It may pass a key twice.
func scan(
	ctx context.Context, nodes map[string]rueidis.Client, pattern string,
	f func(node rueidis.Client, keys []string) (more bool, err error),
) error {
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[addr]
		for cursor := uint64(0); ; {
			page := node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build().ToPipe()
			found, err := node.Do(ctx, page).AsScanEntry()
			if err != nil {
				return err
			}
			if len(found.Elements) > 0 {
				if more, err := f(node, found.Elements); err != nil || !more {
					return err
				}
			}
			if cursor = found.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// escapeGlob escapes text so that, in a pattern, it matches only itself.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// servers returns the servers that may hold a key, by address. If key is "", it returns all servers
// that hold keys. On a Cluster it returns only masters, and lost has the addresses of the masters
// that the client does not know. If the client knows none of the masters, the Cluster probably
// reports addresses that differ from those that the client uses. Then servers returns all nodes,
// because asking a node that does not have the key does no harm.
func (s *Store) servers(
	ctx context.Context, key string,
) (nodes map[string]rueidis.Client, lost []string, err error) {
	client := s.conn.get()
	all := client.Nodes()
	if !s.cluster {
		return all, nil, nil
	}
	owners, _, err := mastersOf(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	if key != "" {
		about := client.B().Get().Key(key).Build()
		owners = []slotOwner{{addr: ownerOf(owners, about.Slot())}}
	}
	nodes = map[string]rueidis.Client{}
	for _, owner := range owners {
		if node, ok := all[owner.addr]; ok {
			nodes[owner.addr] = node
		} else if !slices.Contains(lost, owner.addr) {
			lost = append(lost, owner.addr)
		}
	}
	if len(nodes) == 0 {
		return all, nil, nil
	}
	return nodes, lost, nil
}
