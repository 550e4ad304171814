package simulate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

// TestNoteOnOrder: the result of a log with many late lines has a note that it is unreliable.
func TestNoteOnOrder(t *testing.T) {
	set := parse(t, "tiers: [{name: anyone, identity: ip, limits: 5/1m}]")
	for late, want := range map[int64]bool{0: false, 5: false, 6: true, 99: true} {
		log := &statsLog{stats: accesslog.Stats{Lines: 100, Late: late}}
		log.add(100, ann, 0, time.Second)
		r, err := simulate.Run(t.Context(), log, simulate.Options{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(r.Notes, func(note string) bool {
			return strings.Contains(note,
				"not in chronological order")
		})
		if got != want {
			t.Errorf("%d of 100 late: got %q", late, r.Notes)
		}
	}
}

// statsLog is a log with other statistics.
type statsLog struct {
	records
	stats accesslog.Stats
}

func (l *statsLog) Stats() accesslog.Stats { return l.stats }

// TestWarning: the warning begins above 5%, and says how much could not be read.
func TestWarning(t *testing.T) {
	set := parse(t, "tiers: [{name: anyone, identity: ip, limits: 5/1m}]")
	for _, test := range []struct {
		malformed, lines int64
		want             string
	}{
		{0, 0, ""},
		{1, 20, ""},
		{50, 1000, ""},
		{51, 1000, "The log is partly unreadable: 51 of 1,000 lines (5.1%) could not be read"},
		{2, 4, "The log is partly unreadable: 2 of 4 lines (50%) "},
		{367, 392, "The log is mostly unreadable: 367 of 392 lines (93.6%) "},
		{999_999, 1_000_000, "The log is mostly unreadable: 999,999 of 1,000,000 lines (>99.99%) "},
		{1, 1, "The log is completely unreadable: 1 of 1 line (100%) "},
	} {
		log := &statsLog{stats: accesslog.Stats{Lines: test.lines, Malformed: test.malformed}}
		r, err := simulate.Run(t.Context(), log, simulate.Options{Set: set})
		if err != nil || !strings.HasPrefix(r.Warning, test.want) || (r.Warning == "") != (test.want == "") {
			t.Errorf("%d of %d: got %q, %v; want %q", test.malformed, test.lines, r.Warning, err, test.want)
		}
	}
}

// TestNoteOnDamage: a note names the logs that could not be read to their end.
func TestNoteOnDamage(t *testing.T) {
	log := &statsLog{stats: accesslog.Stats{
		Lines: 1200, Damaged: []accesslog.Damage{{File: "a.gz", Lines: 1200, Reason: "it is truncated"}}}}
	r, err := simulate.Run(t.Context(), log, simulate.Options{Set: parse(t, "tiers: [{name: anyone, identity: ip, limits: 5/1m}]")})
	if want := "a.gz could not be read to its end: it is truncated. The results include the 1,200 lines before that point."; err != nil ||
		!slices.Contains(r.Notes, want) || len(r.Log.Damaged) != 1 {
		t.Errorf("got %q, %+v, %v", r.Notes, r.Log.Damaged, err)
	}
}
