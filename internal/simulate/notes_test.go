package simulate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

// lateLog is a log with late lines.
type lateLog struct {
	records
	late int64
}

func (l *lateLog) Stats() accesslog.Stats {
	stats := l.records.Stats()
	stats.Late = l.late
	return stats
}

// TestNoteOnOrder: the result of a log with many late lines has a note that it is unreliable.
func TestNoteOnOrder(t *testing.T) {
	set := parse(t, "tiers: [{name: anyone, identity: ip, limits: 5/1m}]")
	for late, want := range map[int64]bool{0: false, 5: false, 6: true, 99: true} {
		log := &lateLog{late: late}
		log.add(100, ann, 0, time.Second)
		r, err := simulate.Run(t.Context(), log, simulate.Options{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(r.Notes, func(note string) bool {
			return strings.Contains(note,
				"not in the order of time")
		})
		if got != want {
			t.Errorf("%d of 100 late: got %q", late, r.Notes)
		}
	}
}

// TestNotesOfBoth: a note that applies to both configurations appears for each.
func TestNotesOfBoth(t *testing.T) {
	set := parse(t, "tiers: [{name: anyone, identity: ip, limits: 5/1m}]")
	log := new(records).add(1, "192.0.2.1", 0, 0).add(1, "192.0.2.2", 0, 0)
	notes := replay(t, log, simulate.Options{Set: set, Against: set, MaxSubjects: 1}).Notes
	if len(notes) != 2 || notes[0] == notes[1] || !strings.Contains(notes[1], "the other configuration") {
		t.Errorf("got %q", notes)
	}
}
