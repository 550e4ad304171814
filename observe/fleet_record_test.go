package observe

import (
	"reflect"
	"testing"
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
		shadow: []shadowFacts{{tier: "free", policy: "trial", limits: []string{"5/1m", "cost: 7/1h"},
			since: 1_750_000_000, seconds: 600, total: ShadowCounts{Requests: 9, Denied: 3, Subjects: 2, Hit: 1},
			recent: ShadowCounts{Requests: 5}, minutes: []ShadowCounts{{Requests: 1, Denied: 1}, {Requests: 4}},
			top: []listed{{kind: 1, name: "user:7", denied: 3, atLeast: 3}}}}}
	text := counts.encode()
	if got, err := decodeCounts(text); err != nil || !reflect.DeepEqual(got, counts) {
		t.Errorf("got %+v, %v; want %+v", got, err, counts)
	}
	for n := range len(text) {
		if got, err := decodeCounts(text[:n]); err == nil {
			t.Errorf("%d bytes of %d are read as %+v", n, len(text), got)
		}
	}
	text = facts.encode()
	if got, err := decodeFacts(text); err != nil || !reflect.DeepEqual(got, facts) {
		t.Errorf("got %+v, %v; want %+v", got, err, facts)
	}
	for n := range len(text) {
		if got, err := decodeFacts(text[:n]); err == nil {
			t.Errorf("%d bytes of %d are read as %+v", n, len(text), got)
		}
	}
	if _, err := decodeFacts("\x01" + text[1:]); err == nil {
		t.Error("a row of another version is read")
	}
}

// FuzzRecords: any text is read or refused.
func FuzzRecords(f *testing.F) {
	f.Add("\x01\x07\x01\x00\x00")
	f.Add((&factsRecord{name: "web-1/7", series: []seriesName{{tier: "free"}}}).encode())
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = decodeCounts(text)
		_, _ = decodeFacts(text)
	})
}
