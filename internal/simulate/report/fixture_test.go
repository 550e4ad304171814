package report_test

import (
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/simulate"
	"github.com/stint-limiter/stint/internal/simulate/accesslog"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func counts(requests, denied, banned, shadowed int64) simulate.Count {
	return simulate.Count{Requests: requests, Allowed: requests - denied, Denied: denied, Banned: banned,
		Shadowed: shadowed}
}

// small is a log of one morning without denials.
func small() *simulate.Result {
	nine := after(9 * time.Hour)
	return &simulate.Result{
		Log: simulate.Log{Requests: 12, Lines: 12, Bytes: 900, First: nine, Last: nine.Add(5 * time.Minute)},
		Outcome: simulate.Outcome{
			Total:    counts(12, 0, 0, 0),
			Tiers:    []simulate.NamedCount{{Name: "everybody", Count: counts(12, 0, 0, 0)}},
			Subjects: simulate.Subjects{Seen: 3, Cap: 1000},
			Series: simulate.Series{Start: nine, Step: simulate.Duration(time.Minute),
				Allowed: []int64{1, 5, 0, 2, 3, 1}, Denied: make([]int64, 6), Shadowed: make([]int64, 6)},
			Size: simulate.Size{Subjects: 3, Second: simulate.Load{At: nine, Requests: 2, Decisions: 2},
				Minute: simulate.Load{At: nine, Requests: 5, Decisions: 5}},
		},
	}
}

// busy is a log of three days with everything that can happen.
func busy() *simulate.Result {
	minute := stint.PerMinute(30).BurstTimes(2)
	r := &simulate.Result{
		Log: simulate.Log{
			Requests: 1_204_331, Outside: 17, Limited: 1200, Lines: 1_204_360, Bytes: 251_658_240, Malformed: 12,
			Late: 4, First: after(3 * time.Second), Last: after(72*time.Hour - 2*time.Second),
			Examples: []accesslog.Malformed{{File: "/var/log/nginx/access.log", Line: 17,
				Text: "\x1b[31m<script>alert(1)</script>", Reason: "there is no address at the beginning"}},
		},
		Outcome: simulate.Outcome{
			Total: simulate.Count{Requests: 1_204_331, Allowed: 1_190_003, Denied: 14_328, Banned: 9100, Shadowed: 312,
				Exempt: 20_112},
			Tiers: []simulate.NamedCount{{Name: "pro", Count: counts(400_000, 0, 0, 0)},
				{Name: "free", Count: counts(784_219, 14_328, 9100, 312)}, {Name: "internal"}},
			Routes: []simulate.NamedCount{{Name: "search", Count: counts(500_000, 10_000, 9000, 312)},
				{Name: "login", Count: counts(4000, 328, 100, 0)}, {Name: "", Count: counts(680_219, 4000, 0, 0)}},
			Exempt: []simulate.NamedCount{{Name: "assets", Count: counts(20_112, 0, 0, 0)}},
			Methods: []simulate.MethodCount{
				{Method: "GET", Route: "search", Count: counts(500_000, 10_000, 9000, 312)}, {Method: "GET", Route: "",
					Count: counts(680_000, 4000, 0, 0)}, {Method: "POST", Route: "login", Count: counts(4000, 328, 100,
					0)},
			},
			Policies: []simulate.RuleCount{
				{Tier: "pro", Requests: 400_000, Enforced: 1}, {Tier: "free", Requests: 784_219, Denied: 4900,
					Enforced: 1}, {Policy: "login", Tier: "free", Requests: 4000, Denied: 328, Enforced: 1},
				{Policy: "search", Tier: "free", Requests: 500_000, Shadowed: 312, Enforced: 0.25}, {Policy: "login",
					Tier: "pro", Enforced: 1},
			},
			Limits: []simulate.LimitUse{
				{Tier: "free", Limit: minute, Subjects: 9000, Hit: 40,
					Headroom: simulate.Headroom{Subjects: 8960, P50: 0.0666, P90: 0.21, P99: 0.63, Max: 0.97,
						Histogram: []int64{6000, 1800, 700, 250, 120, 50, 20, 10, 6, 4}},
					Busiest: []simulate.Busy{{Subject: "ip:203.0.113.9:global", Used: 60, Share: 1,
						At: after(30 * time.Hour)}, {Subject: "user:42", Used: 58, Share: 0.97,
						At: after(31 * time.Hour)}}},
				{Policy: "work", Tier: "free", Costs: true, Limit: stint.PerHour(1000).WithName("cost"), Subjects: 9000,
					Headroom: simulate.Headroom{Subjects: 8960, P50: 0.01, P90: 0.02, P99: 0.04, Max: 0.11,
						Histogram: []int64{8950, 10, 0, 0, 0, 0, 0, 0, 0, 0}}},
				{Tier: "internal", Limit: stint.PerMinute(1000)},
			},
			Subjects: simulate.Subjects{Seen: 10_003, Hit: 42, Shadowed: 3, Banned: 2, Bans: 5,
				BannedFor: simulate.Duration(67 * time.Minute), Cap: 10_003, Others: counts(55, 5, 0, 0), Forgotten: 2},
			Hit: []simulate.Hit{
				{Subject: "ip:203.0.113.9:global", Requests: 20_000, Denied: 13_000, Banned: 9100,
					First: after(30 * time.Hour),
					Last:  after(33*time.Hour + 4*time.Minute), Longest: simulate.Duration(time.Hour),
					WorstWait: simulate.Duration(time.Hour), Bans: 4, BannedFor: simulate.Duration(66 * time.Minute),
					By: []simulate.HitBy{{Tier: "free", Limit: minute, Denied: 3000},
						{Policy: "login", Tier: "free", Limit: stint.Per(5, 15*time.Minute), Denied: 12}}},
				{Subject: "user:<img src=x onerror=alert(1)>\n\u202e", Requests: 31, Denied: 1,
					First: after(40 * time.Hour), Last: after(40 * time.Hour),
					WorstWait: simulate.Duration(2500 * time.Millisecond), Never: true,
					By: []simulate.HitBy{{Tier: "free", Limit: minute, Denied: 1}}},
				{Subject: "user:7", Requests: 900, Shadowed: 312, First: after(50 * time.Hour),
					Last: after(51 * time.Hour), By: []simulate.HitBy{{Policy: "search", Tier: "free",
						Limit: stint.PerMinute(20), Shadowed: 312}}},
			},
		},
		Notes: []string{"A log does not tell how long requests took: limits on how many run at once are not applied."},
	}
	r.Outcome.Series = series()
	r.Outcome.Size = simulate.Size{
		Subjects: 4100, SubjectsAt: after(38 * time.Hour),
		Second: simulate.Load{At: after(31 * time.Hour), Requests: 831, Decisions: 830, Settlements: 12},
		Minute: simulate.Load{At: after(31 * time.Hour), Requests: 24_100, Decisions: 24_000, Settlements: 15},
	}
	return r
}

// series is three days by the hour, with an attack on the second.
func series() simulate.Series {
	s := simulate.Series{Start: start, Step: simulate.Duration(time.Hour)}
	for hour := range int64(72) {
		day := hour % 24
		s.Allowed = append(s.Allowed, 4000+day*(24-day)*130)
		s.Denied, s.Shadowed = append(s.Denied, 0), append(s.Shadowed, 0)
		if hour >= 30 && hour < 33 {
			s.Denied[hour] = 4000 + 100*(hour-30)
		}
	}
	s.Shadowed[50] = 312
	return s
}

// full is busy with every section: a comparison with another configuration, and recommended limits.
func full() *simulate.Result {
	r := busy()
	against := r.Outcome
	against.Total = counts(1_204_331, 20_000, 0, 0)
	against.Size.Second.Settlements = 0
	against.Policies = []simulate.RuleCount{{Tier: "free", Requests: 784_219, Denied: 19_000, Enforced: 1},
		{Policy: "old", Tier: "free", Requests: 100, Denied: 1000, Enforced: 1}}
	r.Against = &against
	r.Comparison = &simulate.Comparison{
		AllowedByBoth: 1_184_000, DeniedByBoth: 13_997, OnlyDenied: 331, OnlyAgainst: 6003, Gaining: 30, Losing: 1,
		Gain: []simulate.Change{{Subject: "user:42", Denied: 0, Against: 412},
			{Subject: "ip:203.0.113.9:global", Denied: 13_000, Against: 13_100}},
		Lose: []simulate.Change{{Subject: "user:8", Denied: 331, Against: 0}},
	}

	minute := stint.PerMinute(30).BurstTimes(2)
	one := simulate.Recommendation{Tier: "free", Window: simulate.Duration(time.Minute), Burst: 2, Configured: &minute,
		Subjects: 9000, Requests: 784_219}
	for i, max := range []int64{1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 1200} {
		left := int64(9000)
		for range i {
			left = left * 6 / 10
		}
		one.Curve = append(one.Curve, simulate.Point{Max: max, Subjects: left, Requests: left * 40})
	}
	one.Curve[len(one.Curve)-1] = simulate.Point{Max: 1200}
	one.Choices = []simulate.Choice{
		{Share: 0.99, Exact: stint.PerMinute(14).BurstTimes(2), Limit: stint.PerMinute(15).BurstTimes(2),
			Affected: simulate.Point{Max: 15, Subjects: 88, Requests: 3520}},
		{Share: 0.999, Exact: stint.PerMinute(37).BurstTimes(2), Limit: stint.PerMinute(40).BurstTimes(2),
			Affected: simulate.Point{Max: 40, Subjects: 8, Requests: 320}},
		{Share: 1, Exact: stint.PerMinute(1171).BurstTimes(2), Limit: stint.PerMinute(1200).BurstTimes(2),
			Affected: simulate.Point{Max: 1200}},
	}
	r.Recommendations = []simulate.Recommendation{one,
		{Tier: "internal", Window: simulate.Duration(time.Minute), Burst: 1}}
	return r
}
