package simulate

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/setinfo"
)

func (c *counter) outcome(maxSubjects int) Outcome {
	o := Outcome{
		Methods:  []MethodCount{},
		Policies: c.rules,
		Series:   c.series.result(),
		Limits:   c.limitUses(),
		Subjects: c.subjectCounts(maxSubjects),
		Hit:      c.hits(),
		Size:     c.sizer.size(),
	}
	c.sumByName(&o)
	return o
}

// sumByName fills in the totals of an outcome: for all requests, and by tier, route, exempting
// policy and method.
func (c *counter) sumByName(o *Outcome) {
	tiers, routes, exempt := sums[string]{}, sums[string]{}, sums[string]{}
	methods := sums[methodCountKey]{}
	for key, n := range c.counts {
		o.Total.add(n)
		if key.skipped != "" {
			exempt.add(key.skipped, n)
			continue
		}
		tiers.add(key.tier, n)
		routes.add(key.route, n)
		methods.add(methodCountKey{key.method, key.route}, n)
	}
	o.Tiers = namedCounts(tiers, setinfo.Tiers(c.set), true)
	o.Routes = append(namedCounts(routes, setinfo.Policies(c.set), false), namedCounts(routes, []string{""}, true)...)
	o.Exempt = namedCounts(exempt, setinfo.Policies(c.set), false)
	for key, n := range methods {
		o.Methods = append(o.Methods, MethodCount{Method: key.method, Route: key.route, Count: *n})
	}
	slices.SortFunc(o.Methods, func(a, b MethodCount) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Route, b.Route),
			strings.Compare(a.Method, b.Method))
	})
}

type methodCountKey struct{ method, route string }

type sums[K comparable] map[K]*Count

func (s sums[K]) add(key K, c *Count) {
	if s[key] == nil {
		s[key] = new(Count)
	}
	s[key].add(c)
}

// namedCounts returns counts in the order of names. If all is true, names without requests are
// included.
func namedCounts(counts sums[string], names []string, all bool) []NamedCount {
	list := []NamedCount{}
	for _, name := range names {
		switch c := counts[name]; {
		case c != nil:
			list = append(list, NamedCount{name, *c})
		case all:
			list = append(list, NamedCount{Name: name})
		}
	}
	return list
}

func (c *counter) subjectCounts(maxSubjects int) Subjects {
	sum := Subjects{Cap: maxSubjects, Others: c.others, Forgotten: c.store.Stats().Evicted}
	for _, s := range c.subjects {
		if !s.shared {
			sum.Seen++
		}
		d := s.denials
		if d == nil {
			continue
		}
		if d.denied > 0 {
			sum.Hit++
		}
		if d.shadowed > 0 {
			sum.Shadowed++
		}
		if d.bans > 0 {
			sum.Banned++
		}
		sum.Bans += d.bans
		sum.BannedFor += duration(d.bannedFor)
	}
	return sum
}

func (c *counter) hits() []Hit {
	most := newTop(c.top, func(a, b *subject) int {
		return cmp.Or(cmp.Compare(b.denials.denied, a.denials.denied),
			cmp.Compare(b.denials.shadowed, a.denials.shadowed), strings.Compare(a.name, b.name))
	})
	for _, s := range c.subjects {
		if s.denials != nil {
			most.add(s)
		}
	}
	list := []Hit{}
	for _, s := range most.list {
		list = append(list, c.hitOf(s))
	}
	return list
}

func (c *counter) hitOf(s *subject) Hit {
	d := s.denials
	hit := Hit{
		Subject: c.title(s), Requests: s.requests, Denied: d.denied, Shadowed: d.shadowed,
		First: instant(d.first), Last: instant(d.last), Longest: duration(d.longest),
		WorstWait: Duration(d.worstWait), Never: d.never,
		By: []HitBy{}, Banned: d.banned, Bans: d.bans, BannedFor: duration(d.bannedFor),
	}
	if d.denied > 0 {
		hit.LongestAt = instant(d.longestAt)
	}
	slices.SortFunc(d.byLimit, func(a, b limitDenials) int {
		return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(b.shadowed, a.shadowed),
			cmp.Compare(a.limit, b.limit))
	})
	for _, n := range d.byLimit {
		l := &c.limits[n.limit]
		hit.By = append(hit.By, HitBy{
			Policy: l.Policy, Tier: l.Tier, Limit: l.Limit, Denied: n.denied, Shadowed: n.shadowed,
		})
	}
	return hit
}

func (c *counter) limitUses() []LimitUse {
	uses := c.limits
	// For each limit, the share of it that each subject used. Subjects that were denied, even if
	// only in shadow, are left out.
	shares := make([][]float64, len(uses))
	busiest := make([]*top[Busy], len(uses))
	for i := range uses {
		busiest[i] = newTop(c.top, func(a, b Busy) int {
			return cmp.Or(cmp.Compare(b.Used, a.Used), a.At.Compare(b.At), strings.Compare(a.Subject, b.Subject))
		})
	}
	for _, s := range c.subjects {
		for _, p := range s.peaks {
			uses[p.limit].Subjects++
			used := share(p.used, p.capacity)
			busiest[p.limit].add(Busy{c.title(s), p.used, used, instant(p.at)})
			if s.denials == nil {
				shares[p.limit] = append(shares[p.limit], used)
			}
		}
		if s.denials != nil {
			for _, n := range s.denials.byLimit {
				uses[n.limit].Hit++
			}
		}
	}
	for i := range uses {
		uses[i].Headroom, uses[i].Busiest = headroom(shares[i]), busiest[i].list
	}
	return uses
}

// share returns the share of a capacity that is used, or 1 if the capacity is 0.
func share(used, capacity int64) float64 {
	if capacity == 0 {
		return 1
	}
	return rounded(float64(used) / float64(capacity))
}

// rounded rounds a share to five decimal places. A share between 0 and 1 never becomes 0 or 1.
func rounded(x float64) float64 {
	const digits = 1e5
	switch r := math.Round(x*digits) / digits; {
	case r == 0 && x > 0:
		return 1 / digits
	case r == 1 && x < 1:
		return 1 - 1/digits
	default:
		return r
	}
}

const histogramSteps = 10

// headroom returns the distribution of shares. It sorts the slice in place.
func headroom(shares []float64) Headroom {
	h := Headroom{Subjects: int64(len(shares)), Histogram: make([]int64, histogramSteps)}
	if len(shares) == 0 {
		return h
	}
	slices.Sort(shares)
	quantile := func(share float64) float64 { return shares[rank(len(shares), share)-1] }
	h.P50, h.P90, h.P99, h.Max = quantile(0.5), quantile(0.9), quantile(0.99), quantile(1)
	for _, s := range shares {
		step := int(math.Ceil(s*histogramSteps)) - 1
		h.Histogram[min(max(step, 0), histogramSteps-1)]++
	}
	return h
}

// rank returns the smallest whole number, from 1 to n, that is at least share times n. Rounding
// errors are ignored: 0.07 of 100 is 7, although the float64 nearest to 0.07 is a little larger.
func rank(n int, share float64) int {
	const slack = 1e-9
	return min(max(int(math.Ceil(share*float64(n)-slack)), 1), n)
}

// top keeps at most max of the values that are added to it: those that compare sorts first.
type top[T any] struct {
	max     int
	compare func(a, b T) int
	list    []T
}

func newTop[T any](max int, compare func(a, b T) int) *top[T] {
	return &top[T]{max: max, compare: compare, list: []T{}}
}

func (t *top[T]) add(v T) {
	if len(t.list) == t.max {
		if t.compare(v, t.list[t.max-1]) >= 0 {
			return
		}
		t.list = t.list[:t.max-1]
	}
	i, _ := slices.BinarySearchFunc(t.list, v, t.compare)
	t.list = slices.Insert(t.list, i, v)
}
