package observe

import (
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/errkind"
)

// TestVotes: the fault is the one that lasts, and not the one that was seen last; and one that
// follows another takes over within seconds.
func TestVotes(t *testing.T) {
	type spell struct {
		seconds int
		kinds   []string // each many times a second, in this order
		want    string
	}
	late, gone := []string{errkind.Slow}, []string{errkind.Unreachable}
	full, both := []string{errkind.Full}, []string{errkind.Full, errkind.Slow}
	for name, spells := range map[string][]spell{
		"killed: calls in progress time out": {
			{1, append(gone, errkind.Slow), ""}, {2, gone, errkind.Unreachable}},
		"full, with late answers":  {{60, both, errkind.Full}},
		"full, and later killed":   {{60, full, errkind.Full}, {15, gone, errkind.Unreachable}},
		"silent, and later killed": {{60, late, errkind.Slow}, {7, gone, errkind.Unreachable}},
		"killed, and now loading": {
			{60, gone, errkind.Unreachable}, {3, []string{errkind.Loading}, errkind.Loading}},
		"a script, silent until Redis says so": {
			{5, late, errkind.Slow}, {3, []string{errkind.Script}, errkind.Script}},
	} {
		v, now := votes{}, time.Unix(1_700_000_000, 0)
		for i, s := range spells {
			for range s.seconds {
				for range 10 {
					for _, kind := range s.kinds {
						v.add(kind, "the text of "+kind, now)
					}
					now = now.Add(100 * time.Millisecond)
				}
			}
			got, text := v.fault(now)
			if s.want != "" && (got != s.want || text != "the text of "+got) {
				t.Errorf("%s: after spell %d: got %q, %q; want %q", name, i, got, text, s.want)
			}
		}
	}
	if kind, _ := (votes{}).fault(time.Now()); kind != "" {
		t.Errorf("without failures: %q", kind)
	}
}
