package redisstore

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/keypart"
)

// Bans lists bans in force. See [driver.Inspector]. It scans all keys of every master, a thousand
// at a time. The Redis user needs permission for SCAN.
func (s *Store) Bans(ctx context.Context, n int) ([]driver.Banned, error) {
	if err := s.await(ctx, "bans"); err != nil {
		return nil, err
	}
	list := contract.NewBanList(n)
	nodes, _, err := s.servers(ctx, "")
	if err == nil {
		err = scan(ctx, nodes, escapeGlob(s.prefix)+":{*}:ban", func(node rueidis.Client, keys []string) (bool, error) {
			return true, s.readBans(ctx, node, keys, list)
		})
	}
	if err != nil {
		return nil, s.wrap("bans", err)
	}
	return list.Sorted(), nil
}

// readBans reads the bans with the given keys, and adds those in force to the list.
func (s *Store) readBans(ctx context.Context, node rueidis.Client, keys []string, list *contract.BanList) error {
	ask := rueidis.Commands{node.B().Time().Build().ToPipe()}
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
			continue // the ban has ended or is on another node, or the key is not ours
		}
		if err != nil {
			return err
		}
		if state, ok := readBan(text, now); ok {
			list.Add(driver.Banned{Subject: s.subjectOf(keys[i]), BanState: state})
		}
	}
	return nil
}

// timeIn returns the time in a reply to TIME, in microseconds, or the time that a test has set.
func (s *Store) timeIn(answer rueidis.RedisResult) (int64, error) {
	parts, err := answer.AsIntSlice()
	if err == nil && len(parts) != 2 {
		err = badReply("TIME did not return two numbers")
	}
	if fixed := s.clock.fixed(); err != nil || fixed != 0 {
		return fixed, err
	}
	return parts[0]*1e6 + parts[1], nil
}

// The layout of a ban's value. See lua/bans.lua.
const (
	banMark = 'N'
	banSize = 23
)

// readBan reads a ban as lua/bans.lua writes it. It reports false if the text is not a ban, or if
// the ban is not in force.
func readBan(text string, now int64) (state driver.BanState, ok bool) {
	if len(text) != banSize || text[0] != banMark {
		return state, false
	}
	until, at := readInt7(text[1:]), readInt7(text[8:])
	if now < at { // the clock stepped back
		until -= at - now
	}
	if until <= now {
		return state, false
	}
	return driver.BanState{Until: contract.Instant(until), Level: int(text[banSize-1])}, true
}

func readInt7(text string) (n int64) {
	for _, c := range []byte(text[:7]) {
		n = n<<8 | int64(c)
	}
	return n
}

// subjectOf returns the subject of a key, or the subject's hash if only that is known.
func (s *Store) subjectOf(key string) string {
	text, _, _ := strings.Cut(strings.TrimPrefix(key, s.prefix+":{"), "}")
	if subject, ok := keypart.Read(text); ok {
		return subject
	}
	return text
}
