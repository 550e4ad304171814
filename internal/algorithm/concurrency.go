package algorithm

import "slices"

// The count of a concurrency limit has no entries. Instead, its words list the holders of places,
// two words each: the id of a charge, and the instant at which its place expires. The holders are
// in order of expiry, because all places last for one window. The word field of the count holds the
// result of noRetake.

// holders returns the number of holders, including expired ones.
func (c *Count) holders() int { return len(c.words) / 2 }

func (c *Count) expiry(i int) int64 { return int64(c.words[2*i+1]) }

// noRetake returns the time of the last reset plus a window, or 0 if there was no reset. Until that
// instant, a holder from before the reset cannot take its place back.
func (c *Count) noRetake() int64 { return int64(c.word) }

// Vacant reports whether no place is held. The count may still be needed: see [Count.Dead].
func (c *Count) Vacant(now int64) bool {
	n := c.holders()
	return n == 0 || c.expiry(n-1) < now
}

func (v *View) openPlaces() {
	n := v.count.holders()
	for v.expired < n && v.count.expiry(v.expired) <= v.now {
		v.expired++
	}
	v.inWindow = int64(n - v.expired)
}

// ShortenPlaces makes every place expire at most a window from now. Places that would last longer
// were taken before the clock stepped back.
func (v *View) ShortenPlaces() {
	c, latest := v.count, v.now+v.p.Window
	for i := c.holders() - 1; i >= 0 && c.expiry(i) > latest; i-- {
		c.words[2*i+1] = uint64(latest)
	}
}

func (v *View) expiry(i int) int64 { return min(v.count.expiry(i), v.now+v.p.Window) }

// placesReset returns the time until the last holder expires.
func (v *View) placesReset() int64 {
	if v.inWindow == 0 {
		return 0
	}
	return v.expiry(v.count.holders()-1) - v.now
}

// placeRoom returns the instant at which enough holders have expired to make room for cost, or 0 if
// there is room now.
func (v *View) placeRoom(cost int64) int64 {
	over := v.inWindow + cost - v.p.Cap
	if over <= 0 {
		return 0
	}
	return v.expiry(v.expired + int(over) - 1)
}

// TakePlace gives a place to the charge with the given id.
func (v *View) TakePlace(id uint64) {
	v.writePlaces()
	v.count.words = append(v.count.words, id, uint64(v.now+v.p.Window))
	v.inWindow++
}

// ExtendPlace makes the place of a holder expire a window from now. It reports whether the holder
// had a place.
func (v *View) ExtendPlace(id uint64) bool {
	if !v.ReleasePlace(id) {
		return false
	}
	v.TakePlace(id)
	return true
}

// RetakePlace gives a new place to a former holder whose charge was made at the instant `at`,
// unless the limit was reset after the charge. It reports whether it gave the place.
func (v *View) RetakePlace(id uint64, at int64) bool {
	end := v.count.noRetake()
	if reset := end - v.p.Window; end > 0 && reset <= v.now && v.now < end && at <= reset {
		return false
	}
	v.TakePlace(id)
	return true
}

// ReleasePlace removes the place of a holder. It reports whether the holder had a place.
func (v *View) ReleasePlace(id uint64) bool {
	for i := v.expired; i < v.count.holders(); i++ {
		if v.count.words[2*i] == id {
			i -= v.expired
			v.writePlaces()
			v.count.words = slices.Delete(v.count.words, 2*i, 2*i+2)
			v.inWindow--
			return true
		}
	}
	return false
}

// ClearPlaces removes all places, for a reset.
func (v *View) ClearPlaces() {
	v.count.words, v.count.word = nil, uint64(v.now+v.p.Window)
	v.expired, v.inWindow = 0, 0
}

// writePlaces removes the expired holders from the count, and shortens places that last too long.
func (v *View) writePlaces() {
	v.ShortenPlaces()
	v.count.words = slices.Delete(v.count.words, 0, 2*v.expired)
	v.expired = 0
}

// EachPlace calls f with the expiry of each holder, in order of expiry, but at most `most` times.
// It omits the holders that expire first, and returns how many it omitted.
func (v *View) EachPlace(most int, f func(expiry int64)) (others int64) {
	n := v.count.holders()
	from := max(v.expired, n-most)
	for i := from; i < n; i++ {
		f(v.expiry(i))
	}
	return int64(from - v.expired)
}
