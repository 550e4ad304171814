package errkind

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-limiter/stint"
)

// TestVotes: the fault is the one that lasts, and not the one that was seen last; and one that
// follows another takes over within seconds.
func TestVotes(t *testing.T) {
	type spell struct {
		seconds int
		faults  []string // each many times a second, in this order
		want    string
	}
	failures := map[string]error{}
	for fault, kind := range map[string]stint.StoreErrorKind{
		Slow: stint.KindTimeout, Unreachable: stint.KindUnreachable, Full: stint.KindFull, Loading: stint.KindBusy,
		Script: stint.KindBusy} {
		text := map[string]string{Full: "OOM command not allowed", Loading: "LOADING Redis is loading",
			Script: "BUSY Redis is busy"}[fault]
		failures[fault] = &stint.StoreError{Op: "take", Kind: kind, Err: errors.New(text)}
	}
	late, gone := []string{Slow}, []string{Unreachable}
	full, both := []string{Full}, []string{Full, Slow}
	for name, spells := range map[string][]spell{
		"killed: calls in progress time out": {
			{1, append(gone, Slow), ""}, {2, gone, Unreachable}},
		"full, with late answers":  {{60, both, Full}},
		"full, and later killed":   {{60, full, Full}, {15, gone, Unreachable}},
		"silent, and later killed": {{60, late, Slow}, {7, gone, Unreachable}},
		"killed, and now loading": {
			{60, gone, Unreachable}, {3, []string{Loading}, Loading}},
		"a script, silent until Redis says so": {
			{5, late, Slow}, {3, []string{Script}, Script}},
	} {
		var v Votes
		now := time.Unix(1_700_000_000, 0)
		for i, s := range spells {
			for range s.seconds {
				for range 10 {
					for _, fault := range s.faults {
						v.Add(failures[fault], now)
					}
					now = now.Add(100 * time.Millisecond)
				}
			}
			got, last := v.Fault(now)
			if s.want != "" && (got != s.want || last != failures[got]) {
				t.Errorf("%s: after spell %d: got %q, %v; want %q", name, i, got, last, s.want)
			}
		}
	}
	if name, last := new(Votes).Fault(time.Now()); name != "" || last != nil {
		t.Errorf("without failures: %q, %v", name, last)
	}
}
