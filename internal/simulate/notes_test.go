package simulate_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

const fivePerMinute = "tiers: [{name: anyone, identity: ip, limits: 5/1m}]"

// TestNotes: the notes say what a log does not show, and why a result is unreliable.
func TestNotes(t *testing.T) {
	const settled = `
tiers: [{name: anyone, identity: ip, limits: 5/1m concurrency, budget: 10/1m}]
policies: [{name: model, settle: {header: X-Cost}}]
`
	limited := func(n int) *records {
		return new(records).add(n, ann, 0, time.Second, status(429),
			func(r *accesslog.Record) { r.Client = netip.Addr{} })
	}
	for _, test := range []struct {
		name, config string
		log          *records
		want         []string // the beginning of each note
	}{
		{"a twentieth is late", fivePerMinute, &records{stats: accesslog.Stats{Lines: 100, Late: 5}}, nil},
		{"more are late", fivePerMinute, &records{stats: accesslog.Stats{Lines: 100, Late: 6}},
			[]string{"The log is not in chronological order: 6 lines of 100 came too late"}},
		{"damaged", fivePerMinute, &records{stats: accesslog.Stats{Lines: 1200,
			Damaged: []accesslog.Damage{{File: "a.gz", Lines: 1200, Reason: "it is truncated"}}}},
			[]string{"a.gz could not be read to its end: it is truncated. " +
				"The results include the 1,200 lines before that point."}},
		{"what logs do not show", settled, limited(1), []string{
			"1 request in the log got the response 429", "1 request came without a client",
			"Logs do not show which requests overlapped: concurrency",
			"Some costs are settled by a header of the response"}},
		{"several requests", fivePerMinute, limited(7), []string{
			"7 requests in the log got the response 429", "7 requests came without a client"}},
	} {
		r := replay(t, test.log, simulate.Options{Set: parse(t, test.config)})
		ok := len(r.Notes) == len(test.want) && len(r.Log.Damaged) == len(test.log.stats.Damaged)
		for i := 0; ok && i < len(test.want); i++ {
			ok = strings.HasPrefix(r.Notes[i], test.want[i])
		}
		if !ok {
			t.Errorf("%s: got %q, %+v; want %q", test.name, r.Notes, r.Log.Damaged, test.want)
		}
	}
}

// TestWarning: the warning begins above 5%, and says how much could not be read.
func TestWarning(t *testing.T) {
	set := parse(t, fivePerMinute)
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
		log := &records{stats: accesslog.Stats{Lines: test.lines, Malformed: test.malformed}}
		r := replay(t, log, simulate.Options{Set: set})
		if !strings.HasPrefix(r.Warning, test.want) || (r.Warning == "") != (test.want == "") {
			t.Errorf("%d of %d: got %q; want %q", test.malformed, test.lines, r.Warning, test.want)
		}
	}
}
