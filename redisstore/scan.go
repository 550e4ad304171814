package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// scanCount is how many keys the server looks at in one call, approximately: it does nothing else
// while it does.
const scanCount = 1000

// scan calls f with the keys on servers that match a pattern, some at a time and never none, until
// f wants no more. A key may be there twice.
func scan(
	ctx context.Context, nodes map[string]rueidis.Client, pattern string,
	f func(node rueidis.Client, keys []string) (more bool, err error),
) error {
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[addr]
		for cursor := uint64(0); ; {
			found, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(
				scanCount).Build()).AsScanEntry()
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

// escapeGlob writes a text such that a pattern takes it as it is.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// masters returns the servers that hold keys, by address.
func (s *Store) masters(ctx context.Context) (map[string]rueidis.Client, error) {
	return s.servers(ctx, func(owners []string) []string {
		var addrs []string
		for _, owner := range owners {
			_, addr, _ := strings.Cut(owner, " ")
			addrs = append(addrs, addr)
		}
		return addrs
	})
}

// holders returns the servers that may hold a key, by address: of a Cluster the master of its slot.
func (s *Store) holders(ctx context.Context, key string) (map[string]rueidis.Client, error) {
	client := s.conn.get()
	about := client.B().Get().Key(key).Build()
	return s.servers(ctx, func(owners []string) []string { return []string{ownerOf(owners, about.Slot())} })
}

// servers returns those of a Cluster that are picked from the owners of its slots, see ownersOf,
// and all otherwise. If the addresses that the Cluster reports are not those that the client knows,
// it returns all nodes: what is asked of one that does not have it is not found there.
func (s *Store) servers(
	ctx context.Context, pick func(owners []string) (addrs []string),
) (map[string]rueidis.Client, error) {
	client := s.conn.get()
	all := client.Nodes()
	if !s.cluster {
		return all, nil
	}
	owners, _, err := mastersOf(ctx, client)
	if err != nil {
		return nil, err
	}
	picked := map[string]rueidis.Client{}
	for _, addr := range pick(owners) {
		if node, ok := all[addr]; ok {
			picked[addr] = node
		}
	}
	if len(picked) == 0 {
		return all, nil
	}
	return picked, nil
}

// ownerOf returns the address of the master of a slot, given those of ranges of slots in order. See
// ownersOf.
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
