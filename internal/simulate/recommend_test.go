package simulate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

func TestRecommend(t *testing.T) {
	set := parse(t, `
tiers: [{name: anyone, identity: ip, limits: 5/1m burst 2x, shadow: true}]
policies: [{name: site, identity: everyone, limits: 5/1m}]
`)
	log := new(records)
	for i := range 10 { // the first sends one in a minute, the last ten
		log.add(i+1, fmt.Sprintf("192.0.2.%d", i), time.Duration(i)*time.Hour, time.Second)
	}
	r := replay(t, log, simulate.Options{
		Set: set, Recommend: []float64{0.5, 0.7, 1}, Windows: []time.Duration{2 * time.Second},
	})
	tests := []struct {
		policy, window, choices string
	}{
		{"", "1m0s", "3/1m burst 2x 3/1m burst 2x 4, 4/1m burst 2x 4/1m burst 2x 2, 5/1m burst 2x 5/1m burst 2x 0"},
		{"", "2s", "2/2s 2/2s 0, 2/2s 2/2s 0, 2/2s 2/2s 0"},
		{"site", "1m0s", "10/1m 10/1m 0, 10/1m 10/1m 0, 10/1m 10/1m 0"},
		{"site", "2s", "2/2s 2/2s 0, 2/2s 2/2s 0, 2/2s 2/2s 0"},
	}
	for i, test := range tests {
		got, choices := r.Recommendations[i], ""
		for k, c := range got.Choices {
			if k > 0 {
				choices += ", "
			}
			choices += words(c.Exact, c.Limit, c.Affected.Subjects)
		}
		if got.Policy != test.policy || time.Duration(got.Window).String() != test.window || choices != test.choices ||
			got.Requests != 55 {
			t.Errorf("got %s %s of %d requests: %s; want %s %s: %s",
				got.Policy, time.Duration(got.Window), got.Requests, choices, test.policy, test.window, test.choices)
		}
	}
	want := []simulate.Point{{Max: 1, Subjects: 8, Requests: 36}, {Max: 2, Subjects: 6, Requests: 21},
		{Max: 3, Subjects: 4, Requests: 10}, {Max: 4, Subjects: 2, Requests: 3}, {Max: 5}}
	if got := r.Recommendations[0]; !slices.Equal(got.Curve, want) || got.Configured.String() != "5/1m burst 2x" ||
		r.Recommendations[1].Configured != nil {
		t.Errorf("got %+v, want the curve %+v", got, want)
	}
}

// TestRecommendMaxSubjects: recommendations cover only the subjects that are counted separately.
func TestRecommendMaxSubjects(t *testing.T) {
	log := new(records).add(2, "192.0.2.1", 0, time.Second).add(9, "192.0.2.2", time.Hour, time.Second)
	r := replay(t, log, simulate.Options{
		Set:       parse(t, "tiers: [{name: anyone, identity: ip, limits: 1/1m}]"),
		Recommend: []float64{1}, MaxSubjects: 1,
	}).Recommendations[0]
	if r.Subjects != 1 || r.Requests != 2 || !slices.Equal(r.Curve, []simulate.Point{{Max: 2}}) {
		t.Errorf("got %+v; want the 2 requests of the first subject", r)
	}
}

// TestRecommendedLimits: a recommended limit has the effect that it promises, and the next smaller
// one does not.
func TestRecommendedLimits(t *testing.T) {
	const form = `
tiers: [{name: anyone, identity: ip, limits: unlimited}]
policies: [{name: all, per: method, limits: "%s"}]
`
	rapid.Check(t, func(rt *rapid.T) {
		log := bursts(rt)
		window := rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(rt, "window")
		burst := rapid.SampledFrom([]int64{1, 2, 3, 7}).Draw(rt, "burst")
		share := rapid.SampledFrom([]float64{0.3, 0.5, 0.9, 1}).Draw(rt, "share")
		r := replay(t, log, simulate.Options{
			Set:       parse(t, fmt.Sprintf(form, "1/1h")),
			Recommend: []float64{share}, Windows: []time.Duration{window}, Bursts: []int64{burst},
		})
		got := r.Recommendations[1]
		choice := got.Choices[0]
		hit := func(limit string) (subjects, requests int64) {
			o := replay(t, log, simulate.Options{Set: parse(t, fmt.Sprintf(form, limit))}).Outcome
			return o.Subjects.Hit, o.Total.Denied
		}
		allowed := int64(float64(got.Subjects) * (1 - share + 1e-9))
		if n, _ := hit(choice.Exact.String()); n > allowed {
			rt.Fatalf("%s hits %d of %d subjects; want at most %d", choice.Exact, n, got.Subjects, allowed)
		}
		less := choice.Exact
		less.Max--
		less.Burst -= less.Burst / choice.Exact.Max
		if n, _ := hit(less.String()); n <= allowed {
			rt.Fatalf("%s hits %d of %d subjects: %s is not the smallest for %d", less, n, got.Subjects, choice.Exact,
				allowed)
		}
		for _, p := range []simulate.Point{choice.Affected, rapid.SampledFrom(got.Curve).Draw(rt, "point")} {
			limit := choice.Limit
			limit.Max, limit.Burst = p.Max, p.Max*burst
			if n, denied := hit(limit.String()); n != p.Subjects || denied != p.Requests {
				rt.Fatalf("%s hits %d subjects and denies %d requests; want %d, and %d", limit, n, denied,
					p.Subjects, p.Requests)
			}
		}
		if last := got.Curve[len(got.Curve)-1]; last.Subjects != 0 {
			rt.Fatalf("the curve ends with %+v; want no subject", last)
		}
	})
}

// TestRecommendedRequests: what limits are said to deny is what they deny, if costs are settled and
// refunded.
func TestRecommendedRequests(t *testing.T) {
	sizes := []int64{100, 900, 5_000, 20_000}
	sized := new(records).add(1, "192.0.2.8", 0, 0)
	for i := range 600 {
		sized.add(1, fmt.Sprintf("192.0.2.%d", i%7), time.Duration(i)*900*time.Millisecond, 0,
			func(r *accesslog.Record) { r.Bytes, r.Status = sizes[i%len(sizes)], []int{200, 200, 503}[i%3] })
	}
	const form = `
tiers: [{name: anyone, identity: ip, limits: unlimited}]
policies: [{name: load, cost: 3, budget: "%s", settle: {bytes: 1KB}, refund: [5xx]}]`
	for _, window := range []string{"10s", "1h burst 3x"} {
		r := replay(t, sized, simulate.Options{Set: parse(t, fmt.Sprintf(form, "7/"+window)), Recommend: []float64{1}})
		points := 0
		for _, p := range r.Recommendations[0].Curve {
			limit := fmt.Sprintf("%d/%s", p.Max, window)
			o := replay(t, sized, simulate.Options{Set: parse(t, fmt.Sprintf(form, limit))}).Outcome
			if o.Total.Denied != p.Requests || o.Subjects.Hit != p.Subjects {
				t.Errorf("%s denies %d requests of %d subjects; got %+v", limit, o.Total.Denied, o.Subjects.Hit, p)
			}
			if p.Requests > 0 {
				points++
			}
		}
		if points < 2 {
			t.Errorf("%s: the curve has only %d limits that deny anything", window, points)
		}
	}
}

// bursts draws a log of a few subjects. Their bursts are about as large as the smallest limit with
// slices, and close enough to each other that slices matter.
func bursts(rt *rapid.T) *records {
	log := new(records)
	for i := range rapid.IntRange(1, 5).Draw(rt, "subjects") {
		from := time.Duration(0)
		for range rapid.IntRange(1, 3).Draw(rt, "bursts") {
			n := rapid.SampledFrom([]int{1, 3, 20, 62, 63, 100, 124, 125, 126, 160}).Draw(rt, "size")
			every := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 300 * time.Millisecond}).Draw(rt, "every")
			m := rapid.SampledFrom([]string{"GET", "POST"}).Draw(rt, "method")
			log.add(n, fmt.Sprintf("192.0.2.%d", i), from, every, method(m))
			from += time.Duration(n)*every + rapid.SampledFrom([]time.Duration{
				time.Millisecond, time.Second, 1003 * time.Millisecond, 60100 * time.Millisecond, time.Hour,
			}).Draw(rt, "pause")
		}
	}
	slices.SortStableFunc(log.list, func(a, b accesslog.Record) int { return int(a.At - b.At) })
	return log
}
