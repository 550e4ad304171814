package simulate_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/guardtest"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
	"github.com/stint-limiter/stint/internal/testkit"
)

// start is when logs begin.
var start = time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC)

// records is a log.
type records struct {
	list  []accesslog.Record
	read  int
	stats accesslog.Stats // the zero Stats count the records
}

func (l *records) Next(r *accesslog.Record) error {
	if l.read == len(l.list) {
		return io.EOF
	}
	*r = l.list[l.read]
	l.read++
	return nil
}

func (l *records) Stats() accesslog.Stats {
	stats := l.stats
	stats.Lines = cmp.Or(stats.Lines, int64(l.read))
	return stats
}

// add adds n requests of a client, with an interval between them. Times are relative to start and
// must not go back.
func (l *records) add(n int, client string, from, every time.Duration, change ...func(*accesslog.Record)) *records {
	for i := range n {
		r := accesslog.Record{
			At:     start.Add(from + time.Duration(i)*every).UnixNano(),
			Client: netip.MustParseAddr(client), Method: "GET", Host: "example.com", Path: "/", Status: 200,
		}
		for _, f := range change {
			f(&r)
		}
		l.list = append(l.list, r)
	}
	return l
}

func path(p string) func(*accesslog.Record) { return func(r *accesslog.Record) { r.Path = p } }

func method(m string) func(*accesslog.Record) { return func(r *accesslog.Record) { r.Method = m } }

func user(u string) func(*accesslog.Record) { return func(r *accesslog.Record) { r.User = u } }

func status(s int) func(*accesslog.Record) { return func(r *accesslog.Record) { r.Status = s } }

var parse = guardtest.Parse

// replay replays a log from its beginning.
func replay(t testing.TB, log *records, o simulate.Options) *simulate.Result {
	t.Helper()
	log.read = 0
	result := testkit.Must(simulate.Run(context.Background(), log, o))(t)
	return result
}

// replayText replays a log in a format; nil detects it.
func replayText(t *testing.T, log string, format accesslog.Format, o simulate.Options) *simulate.Result {
	t.Helper()
	source, err := accesslog.Open([]string{"-"}, accesslog.Options{Format: format, Stdin: strings.NewReader(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	result := testkit.Must(simulate.Run(t.Context(), source, o))(t)
	return result
}

// after returns a time relative to start.
func after(d time.Duration) time.Time { return start.Add(d) }

func wantCount(t *testing.T, what string, got, want simulate.Count) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// wantNamed compares counts in the form "name allowed/denied, ...".
func wantNamed(t *testing.T, what string, list []simulate.NamedCount, want string) {
	t.Helper()
	var got []string
	for _, n := range list {
		got = append(got, fmt.Sprintf("%s %d/%d", n.Name, n.Allowed, n.Denied))
	}
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("%s: got %q, want %q", what, s, want)
	}
}

// words joins values with spaces.
func words(values ...any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, " ")
}
