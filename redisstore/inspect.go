package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
	"github.com/stint-limiter/stint/internal/contract"
	"github.com/stint-limiter/stint/internal/errkind"
	"github.com/stint-limiter/stint/internal/storebounds"
)

var _ driver.Inspector = (*Store)(nil)

// Inspect shows what a subject has used. See [driver.Inspector]. It is one call of a script that
// writes nothing.
func (s *Store) Inspect(ctx context.Context, c stint.Claim) (driver.Inspection, error) {
	if err := s.await(ctx, "inspect"); err != nil {
		return driver.Inspection{}, err
	}
	if err := contract.ValidateInspect(c); err != nil {
		return driver.Inspection{}, err
	}
	k, err := s.newShownKeys()
	if err != nil {
		return driver.Inspection{}, s.wrap("inspect", err)
	}
	k.inScope(c.Subject, "", "ban")
	k.inScope(c.Subject, "", "strikes")
	parts := appendParts(nil, 0, 0, &c)
	s.sets.fill(parts)
	for i := range parts {
		k.ofPart(&parts[i])
	}
	call := s.nextCall()
	reply, err := s.look(ctx, inspectScript, k.strings(), inspectArgs(parts, call, s.clock()))
	if err != nil {
		return driver.Inspection{}, s.wrap("inspect", err)
	}
	shown, err := decodeInspect(reply, call, c.Limits, parts)
	return shown, s.wrap("inspect", err)
}

// look calls a script that writes nothing, in a way in which it cannot, if the server knows and
// permits that: from Redis 7 on.
func (s *Store) look(ctx context.Context, read *script, keys, args []string) (string, error) {
	if !s.noReadOnly.Load() {
		reply, err := read.readOnly().run(ctx, &s.conn, keys, args)
		if !unknownOrRefused(err) {
			return reply, err
		}
		s.noReadOnly.Store(true)
	}
	return read.run(ctx, &s.conn, keys, args)
}

// unknownOrRefused reports whether an error says that a command does not exist, or is not
// permitted.
func unknownOrRefused(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && (strings.Contains(refused.Error(), "unknown command") || failureKind(err) == errkind.Auth)
}

// inspectArgs packs parts for inspect.lua.
func inspectArgs(parts []part, call uint64, clock int64) []string {
	var sets callSets
	body := le.AppendUint16(nil, storebounds.MaxEntries)
	body = append(body, byte(len(parts)))
	for i := range parts {
		if p := &parts[i]; p.holders() {
			body = appendTime(appendInt(append(body, 0), p.limits[0].Max), p.limits[0].Window)
		} else {
			body = append(body, sets.number(p.set))
		}
	}
	b := sets.appendTo(appendStart(nil, call, clock))
	return []string{rueidis.BinaryString(append(b, body...))}
}

// decodeInspect reads the reply of inspect.lua.
func decodeInspect(reply string, call uint64, limits []stint.Limit, parts []part) (driver.Inspection, error) {
	in, now, err := opening(reply, call)
	if err != nil {
		return driver.Inspection{}, err
	}
	shown := driver.Inspection{
		Now:     timeOf(now),
		Ban:     driver.BanState{Until: in.instant(), Level: int(in.int(0)), Strikes: in.int(0)},
		Windows: make([]driver.Window, len(limits)),
	}
	for i := range parts {
		p := &parts[i]
		if p.holders() {
			in.window(&shown.Windows[p.position(0)], &limits[p.position(0)])
			continue
		}
		for _, l := range p.set.limits {
			in.window(&shown.Windows[p.position(l.index)], &limits[p.position(l.index)])
		}
	}
	return shown, in.end()
}

// window reads what is shown of one limit.
func (in *reader) window(w *driver.Window, l *stint.Limit) {
	w.State = stint.State{Limit: l, Usage: in.usage()}
	w.LeftOut = in.int(0)
	var entries []driver.Entry
	for n := in.uint16(); n > 0 && !in.bad; n-- {
		entries = append(entries, driver.Entry{At: in.instant(), Until: in.instant(), Units: in.int(0)})
	}
	contract.Show(w, entries)
}

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
