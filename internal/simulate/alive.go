package simulate

import "math/bits"

// alive counts the subjects that Redis would store as time passes. Subjects expire in buckets. A
// bucket is one second long or, if the subject expires in more than about four minutes, at most a
// 128th of the time until it expires.
type alive struct {
	now, most int64
	mostAt    int64
	levels    []*level // buckets of 1 s, 2 s, 4 s and so on
	ends      []int64  // end of the first bucket of each level, in Unix microseconds
}

// level is a ring of buckets of one length.
type level struct {
	first int64 // the number of the first bucket that has not ended
	ring  [buckets]int64
}

const (
	buckets     = 512
	bucketLevel = 5 // bits of an expiry that hold its level; the others hold the bucket's number
)

// expiry is the bucket in which a subject expires. 0 means none.
type expiry int64

// expiryAt returns the bucket of a subject that expires at the time at. at and now are in Unix
// microseconds.
func expiryAt(at, now int64) expiry {
	level := bits.Len64(uint64(max(at-now, 0) / (1e6 * buckets / 2)))
	return expiry(at/bucketLength(level)<<bucketLevel | int64(level))
}

func bucketLength(level int) int64 { return 1e6 << level }

// advance removes the subjects that have expired.
func (a *alive) advance(now int64) {
	for i, end := range a.ends {
		if now < end {
			continue
		}
		l := a.levels[i]
		to := now / bucketLength(i)
		for n := min(to-l.first, buckets); n > 0; n-- {
			ended := &l.ring[(to-n)%buckets]
			a.now -= *ended
			*ended = 0
		}
		l.first, a.ends[i] = to, (to+1)*bucketLength(i)
	}
}

// replace counts a subject that expires at the time at. If old is not 0, replace removes the
// subject from the bucket old. It returns the new bucket, which the caller passes as old the next
// time.
func (a *alive) replace(old expiry, at, now int64) expiry {
	if old != 0 {
		l := a.levels[old&(1<<bucketLevel-1)]
		if bucket := int64(old >> bucketLevel); bucket >= l.first {
			l.ring[bucket%buckets]--
			a.now--
		}
	}
	e := expiryAt(at, now)
	i := int(e & (1<<bucketLevel - 1))
	for n := len(a.levels); n <= i; n++ {
		l := &level{first: now / bucketLength(n)}
		a.levels, a.ends = append(a.levels, l), append(a.ends, (l.first+1)*bucketLength(n))
	}
	a.levels[i].ring[int64(e>>bucketLevel)%buckets]++
	if a.now++; a.now > a.most {
		a.most, a.mostAt = a.now, now
	}
	return e
}
