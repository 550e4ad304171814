package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
)

var _ stint.Inspector = (*Store)(nil)

// Inspect shows what a subject has used. See [stint.Inspector]. It is one call of a script that writes nothing.
func (s *Store) Inspect(ctx context.Context, c stint.Claim) (stint.Inspection, error) {
	if err := c.ValidateInspect(); err != nil {
		return stint.Inspection{}, err
	}
	k := keys{store: s}
	k.ofLimits(c.Subject, c.Scope, c.Limits)
	k.ofSubject(c.Subject, "ban")
	k.ofSubject(c.Subject, "strikes")
	call := s.nextCall()
	reply, err := s.look(ctx, inspectScript, k.strings(), inspectArgs(c.Limits, call, s.clock()))
	if err != nil {
		return stint.Inspection{}, s.wrap("inspect", err)
	}
	shown, err := decodeInspect(reply, call, c.Limits)
	return shown, s.wrap("inspect", err)
}

// look calls a script that writes nothing, in a way in which it cannot, if the server knows and permits that: from
// Redis 7 on.
func (s *Store) look(ctx context.Context, read *script, keys, args []string) (string, error) {
	if !s.noReadOnly.Load() {
		reply, err := read.readOnly().run(ctx, s.conn.get(), keys, args)
		if !unknownOrRefused(err) {
			return reply, err
		}
		s.noReadOnly.Store(true)
	}
	return read.run(ctx, s.conn.get(), keys, args)
}

// unknownOrRefused reports whether an error says that a command does not exist, or is not permitted.
func unknownOrRefused(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && (strings.Contains(refused.Error(), "unknown command") || KindOf(err) == stint.KindAuth)
}

// inspectArgs packs limits for inspect.lua.
func inspectArgs(limits []stint.Limit, call uint64, clock int64) []string {
	b := make([]byte, 0, 18+specSize*len(limits))
	b = be.AppendUint64(b, call)
	b = appendInt(b, clock)
	b = be.AppendUint16(b, stint.MaxEntries)
	b = appendSpecs(b, limits)
	return []string{rueidis.BinaryString(b)}
}

// decodeInspect reads the reply of inspect.lua.
func decodeInspect(reply string, call uint64, limits []stint.Limit) (stint.Inspection, error) {
	in, now, err := opening(reply, call)
	if err != nil {
		return stint.Inspection{}, err
	}
	shown := stint.Inspection{
		Now:     timeOf(now),
		Ban:     stint.BanState{Until: in.instant(), Level: int(in.int(0)), Strikes: in.int(0)},
		Windows: make([]stint.Window, len(limits)),
	}
	for i := range shown.Windows {
		w := &shown.Windows[i]
		w.State = stint.State{Limit: &limits[i], Usage: stint.Usage{Used: in.int(0), ResetAfter: in.duration(), RetryAfter: in.duration()}}
		w.LeftOut = in.int(0)
		var entries []stint.Entry
		for n := in.uint16(); n > 0 && !in.bad; n-- {
			entries = append(entries, stint.Entry{At: in.instant(), Until: in.instant(), Units: in.int(0)})
		}
		w.Show(entries)
	}
	return shown, in.end()
}

func (in *reader) uint16() int { return int(in.byte())<<8 | int(in.byte()) }

// instant reads a time, which is zero if it is 0.
func (in *reader) instant() time.Time {
	us := in.int(0)
	if us == 0 {
		return time.Time{}
	}
	return timeOf(us)
}

// timeOf turns microseconds since the Unix epoch into a time.
func timeOf(us int64) time.Time { return time.UnixMicro(us).UTC() }
