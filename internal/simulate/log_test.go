package simulate_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/loggen"
)

// TestGeneratedLog: all numbers in the result add up, and another replay gives the same result.
func TestGeneratedLog(t *testing.T) {
	const lines = 5_000
	var log strings.Builder
	if err := loggen.Generate(&log, loggen.Options{Lines: lines, Users: 500, Span: 90 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	o := simulate.Options{
		Set: parse(t, `
tiers: [{name: anyone, identity: ip, limits: [30/1m burst 2x, 500/1h]}]
policies:
  - {name: reads, match: {method: GET}, limits: 20/1m, rollout: 50%}
  - {name: site, identity: everyone, limits: 2000/1h}
bans: {after: 20, within: 1m, durations: [1m, 5m]}
`),
		Against:   parse(t, `tiers: [{name: anyone, identity: ip, limits: 5/1m}]`),
		Recommend: []float64{0.9, 0.999, 1}, Windows: []time.Duration{time.Minute},
	}
	r := replayText(t, log.String(), nil, o)
	if r.Log.Lines != lines || r.Log.Requests+r.Log.Malformed != lines || r.Log.Bytes == 0 {
		t.Errorf("log: got %+v", r.Log)
	}
	for _, out := range []*simulate.Outcome{&r.Outcome, r.Against} {
		if out.Total.Denied == 0 || out.Total.Requests != r.Log.Requests {
			t.Errorf("total: got %+v of %d", out.Total, r.Log.Requests)
		}
		wantSum(t, out)
	}
	c := r.Comparison
	if n := c.AllowedByBoth + c.DeniedByBoth + c.OnlyDenied + c.OnlyAgainst; n != r.Log.Requests ||
		c.DeniedByBoth+c.OnlyDenied != r.Outcome.Total.Denied ||
		c.DeniedByBoth+c.OnlyAgainst != r.Against.Total.Denied {
		t.Errorf("comparison: got %+v", c)
	}
	if again := replayText(t, log.String(), nil, o); !reflect.DeepEqual(r, again) {
		t.Errorf("got %+v, and then %+v", r, again)
	}
}

// wantSum fails the test if the parts of an outcome do not add up to its total.
func wantSum(t *testing.T, o *simulate.Outcome) {
	t.Helper()
	var tiers, methods, series int64
	for _, n := range append(o.Tiers, o.Exempt...) {
		tiers += n.Requests
	}
	for _, m := range o.Methods {
		methods += m.Requests
	}
	for i := range o.Series.Allowed {
		series += o.Series.Allowed[i] + o.Series.Denied[i]
	}
	denied := o.Total.Banned
	for _, p := range o.Policies {
		denied += p.Denied
	}
	if tiers != o.Total.Requests || methods != o.Total.Requests-o.Total.Exempt || series != o.Total.Requests ||
		denied != o.Total.Denied {
		t.Errorf("tiers add up to %d, methods to %d, the series to %d and denials to %d; want %+v", tiers, methods,
			series, denied, o.Total)
	}
	for _, l := range o.Limits {
		var inHistogram int64
		for _, n := range l.Headroom.Histogram {
			inHistogram += n
		}
		if h := l.Headroom; inHistogram != h.Subjects || l.Policy != "site" && h.Subjects+l.Hit > l.Subjects ||
			h.P50 > h.P90 || h.P90 > h.P99 || h.P99 > h.Max || h.Max > 1 {
			t.Errorf("%s: got %+v", l.Limit, l)
		}
	}
}
