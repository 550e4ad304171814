package observe

import (
	"reflect"
	"testing"
	"time"
)

// TestRecords: what is written is read again, and what was cut off or is foreign is refused.
func TestRecords(t *testing.T) {
	counts := countsRecord{seq: 7, at: 1_800_000_000, storeUp: true, point: Point{Saved: 1, Calls: 300, CallsFailed: 2,
		Carried: 1 << 40, P50: 0.001, P99: 0.25, StoreP50: 0.0005, StoreP99: 1},
		series: []Counts{{1, 2, 3, 4, 5}, {Failed: 1 << 50}},
		worst:  []listed{{kind: 1, name: "user:42", rate: 12.5, share: 0.75}}}
	facts := factsRecord{started: 1_700_000_000, name: "web-1/7", config: "policies 3fa9c1d2",
		alerts: []string{"StoreDown", "Spike"},
		series: []seriesName{{tier: "free"}, {tier: "outbound", policy: "igdb", outbound: true}},
		top:    []listed{{kind: 0, name: "ip:203.0.113.9", policy: "login", denied: 12, atLeast: 10}},
		shadow: []shadowFacts{{
			ShadowReport: ShadowReport{Tier: "free", Policy: "trial", Limits: []string{"5/1m", "cost: 7/1h"},
				Since: time.Unix(1_750_000_000, 0), RecentSeconds: 600,
				Total:  ShadowCounts{Requests: 9, Denied: 3, Subjects: 2, Hit: 1},
				Recent: ShadowCounts{Requests: 5}, Minutes: []ShadowCounts{{Requests: 1, Denied: 1}, {Requests: 4}}},
			top: []listed{{kind: 1, name: "user:7", denied: 3, atLeast: 3}}}}}
	for _, r := range []struct{ record, empty fleetRecord }{{&counts, &countsRecord{}}, {&facts, &factsRecord{}}} {
		row := encode(r.record)
		if err := decode(row, r.empty); err != nil || !reflect.DeepEqual(r.empty, r.record) {
			t.Errorf("got %+v, %v; want %+v", r.empty, err, r.record)
		}
		for n := range len(row) {
			if decode(row[:n], r.empty) == nil {
				t.Errorf("%d bytes of %d are read as %+v", n, len(row), r.empty)
			}
		}
		if decode("\x01"+row[1:], r.empty) == nil {
			t.Error("a row of another version is read")
		}
	}
	facts.shadow = make([]shadowFacts, maxShadowReports+1)
	if decode(encode(&facts), &factsRecord{}) == nil {
		t.Error("a row with too long a list is read")
	}
}

// FuzzRecords: any text is read or refused.
func FuzzRecords(f *testing.F) {
	f.Add("\x01\x07\x01\x00\x00")
	f.Add(encode(&factsRecord{name: "web-1/7", series: []seriesName{{tier: "free"}}}))
	f.Fuzz(func(_ *testing.T, row string) {
		_ = decode(row, &countsRecord{})
		_ = decode(row, &factsRecord{})
	})
}
