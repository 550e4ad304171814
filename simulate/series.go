package simulate

import "time"

// series counts what happens in equal steps of time. The steps grow with the span, so that there are never many.
type series struct {
	step  int // in seriesSteps
	start int64
	steps []moment
}

// moment is what happened in one step.
type moment struct{ allowed, denied, shadowed int64 }

// maxMoments is how many steps a series has at most.
const maxMoments = 480

// seriesSteps are the lengths of steps, each a multiple of the one before. The last ones are for logs with wrong clocks.
var seriesSteps = [...]time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
	time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
	70 * 24 * time.Hour, 700 * 24 * time.Hour, 7000 * 24 * time.Hour,
}

// length is that of a step, in microseconds.
func (s *series) length() int64 { return seriesSteps[s.step].Microseconds() }

// add counts what became of a request. Times do not go back.
func (s *series) add(now int64, c *Count) {
	if len(s.steps) == 0 {
		s.start = now - now%s.length()
	}
	i := (now - s.start) / s.length()
	for i >= maxMoments && s.step < len(seriesSteps)-1 {
		s.widen()
		i = (now - s.start) / s.length()
	}
	for int(i) >= len(s.steps) {
		s.steps = append(s.steps, moment{})
	}
	m := &s.steps[i]
	m.allowed += c.Allowed
	m.denied += c.Denied
	m.shadowed += c.Shadowed
}

// widen goes over to the next length of steps.
func (s *series) widen() {
	old := s.length()
	s.step++
	start := s.start - s.start%s.length()
	wide := s.steps[:0]
	for i, m := range s.steps {
		at := int((s.start + int64(i)*old - start) / s.length())
		for len(wide) <= at { // no further than i, so nothing is overwritten that is yet to be read
			wide = append(wide, moment{})
		}
		w := &wide[at]
		w.allowed += m.allowed
		w.denied += m.denied
		w.shadowed += m.shadowed
	}
	s.start, s.steps = start, wide
}

// result returns the series as people see it.
func (s *series) result() Series {
	r := Series{Step: Duration(seriesSteps[s.step]), Allowed: []int64{}, Denied: []int64{}, Shadowed: []int64{}}
	if len(s.steps) > 0 {
		r.Start = instant(s.start)
	}
	for _, m := range s.steps {
		r.Allowed = append(r.Allowed, m.allowed)
		r.Denied = append(r.Denied, m.denied)
		r.Shadowed = append(r.Shadowed, m.shadowed)
	}
	return r
}
