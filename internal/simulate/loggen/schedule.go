package loggen

import (
	"iter"
	"math"
	"time"
)

// schedule holds the number of lines of each kind for each minute.
type schedule struct {
	// Each slice has an element for each minute. Elements may be fractional, and add up to the
	// number of lines of that kind.
	people, crawl, attack []float64
}

type counts struct{ people, crawl, attack int }

// Shares of the lines that come from the crawler and the attacker.
const (
	crawlShare  = 0.04
	attackShare = 0.03
)

func newSchedule(o *Options) *schedule {
	minutes := int(o.Span / time.Minute)
	s := &schedule{make([]float64, minutes), make([]float64, minutes), make([]float64, minutes)}
	attackFrom := minutes * 6 / 10
	attackUntil := attackFrom + min(20, minutes/10)
	for m := range minutes {
		at := o.From.Add(time.Duration(m) * time.Minute).UTC()
		s.people[m] = activity(at)
		if hour := at.Hour(); 2 <= hour && hour < 5 {
			s.crawl[m] = 1
		}
		if attackFrom <= m && m < attackUntil {
			s.attack[m] = 1
		}
	}
	crawl := scale(s.crawl, int(float64(o.Lines)*crawlShare))
	attack := scale(s.attack, int(float64(o.Lines)*attackShare))
	scale(s.people, o.Lines-crawl-attack)
	return s
}

// activity returns the level of activity: lowest at 3 a.m., highest at 3 p.m., and lower on
// weekends.
func activity(at time.Time) float64 {
	hour := float64(at.Hour()) + float64(at.Minute())/60
	level := 0.1 + math.Pow(0.5-0.5*math.Cos(2*math.Pi*(hour-3)/24), 1.5)
	if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
		level *= 0.6
	}
	return level
}

// scale scales weights so that they add up to n, and returns n. If all weights are 0, it returns 0.
func scale(weights []float64, n int) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		return 0
	}
	for i := range weights {
		weights[i] *= float64(n) / sum
	}
	return n
}

// minutes yields the counts of each minute. Fractions of a line carry over to later minutes.
func (s *schedule) minutes() iter.Seq2[int, counts] {
	return func(yield func(int, counts) bool) {
		var people, crawl, attack rounder
		for m := range s.people {
			if !yield(m, counts{people.next(s.people[m]), crawl.next(s.crawl[m]), attack.next(s.attack[m])}) {
				return
			}
		}
	}
}

// rounder rounds a series of numbers so that the rounding errors do not add up.
type rounder struct {
	sum  float64
	done int
}

func (r *rounder) next(x float64) int {
	r.sum += x
	n := int(math.Round(r.sum)) - r.done
	r.done += n
	return n
}
