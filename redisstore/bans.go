package redisstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/banlist"
)

// scanCount is how many keys the server looks at in one call, more or less: it does nothing else meanwhile.
const scanCount = 1000

// Bans lists bans in force. See [stint.Inspector]. It scans the keys of every master, as many as there are, a thousand at
// a time. The user needs the permission scan.
func (s *Store) Bans(ctx context.Context, n int) ([]stint.Banned, error) {
	list := banlist.New(n)
	nodes, err := s.masters(ctx)
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		if err == nil {
			err = s.listBans(ctx, nodes[addr], list)
		}
	}
	if err != nil {
		return nil, s.wrap("bans", err)
	}
	return list.Sorted(), nil
}

// masters returns the servers that hold keys, by address. If the addresses that a Cluster tells are not those that the
// client knows, it returns all nodes: what is asked of a replica is not found there.
func (s *Store) masters(ctx context.Context) (map[string]rueidis.Client, error) {
	client := s.conn.get()
	all := client.Nodes()
	if !s.cluster {
		return all, nil
	}
	owners, _, err := mastersOf(ctx, client)
	if err != nil {
		return nil, err
	}
	found := map[string]rueidis.Client{}
	for _, owner := range owners {
		_, addr, _ := strings.Cut(owner, " ")
		if node, ok := all[addr]; ok {
			found[addr] = node
		}
	}
	if len(found) == 0 {
		return all, nil
	}
	return found, nil
}

// listBans adds a server's bans to a list.
func (s *Store) listBans(ctx context.Context, node rueidis.Client, list *banlist.List) error {
	pattern := escapeGlob(s.prefix) + ":{*}:ban"
	for cursor := uint64(0); ; {
		found, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		if err := s.readBans(ctx, node, found.Elements, list); err != nil {
			return err
		}
		if cursor = found.Cursor; cursor == 0 {
			return nil
		}
	}
}

// readBans adds those of the bans with these keys that are in force.
func (s *Store) readBans(ctx context.Context, node rueidis.Client, keys []string, list *banlist.List) error {
	if len(keys) == 0 {
		return nil
	}
	ask := rueidis.Commands{node.B().Time().Build()}
	for _, key := range keys {
		ask = append(ask, node.B().Get().Key(key).Build())
	}
	answers := node.DoMulti(ctx, ask...)
	now, err := s.timeIn(answers[0])
	if err != nil {
		return err
	}
	for i, answer := range answers[1:] {
		text, err := answer.ToString()
		if _, refused := rueidis.IsRedisErr(err); refused {
			continue // it has ended meanwhile, or is elsewhere, or not ours
		}
		if err != nil {
			return err
		}
		if state, ok := readBan(text, now); ok {
			list.Add(stint.Banned{Subject: s.subjectOf(keys[i]), BanState: state})
		}
	}
	return nil
}

// timeIn is the server's clock by the reply of TIME, in microseconds, or that of a test.
func (s *Store) timeIn(answer rueidis.RedisResult) (int64, error) {
	parts, err := answer.AsIntSlice()
	if err == nil && len(parts) != 2 {
		err = errReply("no time")
	}
	if clock := s.clock(); err != nil || clock != 0 {
		return clock, err
	}
	return parts[0]*1e6 + parts[1], nil
}

// readBan reads a ban as ban.lua writes it, if it is one and in force.
func readBan(text string, now int64) (state stint.BanState, ok bool) {
	if len(text) != 23 || text[0] != 'N' {
		return state, false
	}
	until, at := readInt7(text[1:]), readInt7(text[8:])
	if now < at { // the clock stepped back
		until -= at - now
	}
	if until <= now {
		return state, false
	}
	return stint.BanState{Until: timeOf(until), Level: int(text[22])}, true
}

func readInt7(text string) (n int64) {
	for _, c := range []byte(text[:7]) {
		n = n<<8 | int64(c)
	}
	return n
}

// subjectOf is the subject of a key, or its hash if only that is known.
func (s *Store) subjectOf(key string) string {
	text, _, _ := strings.Cut(strings.TrimPrefix(key, s.prefix+":{"), "}")
	if subject, ok := readPart(text); ok {
		return subject
	}
	return text
}

// escapeGlob writes a text such that a pattern takes it as it is.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
