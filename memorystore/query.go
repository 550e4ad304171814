package memorystore

import (
	"hash/maphash"
	"slices"

	"github.com/stint-limiter/stint"
)

// query is a call in progress. Each shard has one query, so that a call allocates nothing. A call
// over several shards uses the query of the first.
//
// A call locks the shards of its claims, finds their records, opens a view of each limit, decides
// on the views, writes changed views back to the records, and counts the growth of the records.
type query struct {
	store  *Store
	now    int64
	locked []uint32 // indexes of the locked shards, ascending
	claims []claim
	parts  []part // records of the claims, without duplicates
	views  []view // views of the limits of all claims, in order
}

type claim struct {
	*stint.Claim
	number  int
	shard   *shard
	hash    uint64 // hash of the subject
	part    int    // index of the part without a name, which has the ids, places and settled charges
	settled bool   // whether the claim was settled before this amendment
	until   int64  // when the store may forget that this amendment has settled the claim
}

// part is a record that a call reads or writes.
type part struct {
	claim  *claim
	scope  string // scope of the claim, or empty for a ban
	name   string // name of the limits
	hash   uint64
	rec    *record // nil if there is none
	size   int     // size of the record when the call began
	added  bool    // whether the call has inserted the record
	number uint32  // number of the record, if the call has inserted it
	stale  bool    // in an amendment: the record is not the one that was charged
}

// lock takes the locks of all claims' shards, in ascending order, and finds the records of the
// claims. It returns nil if there are no claims, or if a claim has no subject. Otherwise, call
// unlock to release the locks.
func (s *Store) lock(claims []stint.Claim) *query {
	var hashBuf [stint.MaxClaims]uint64
	var shardBuf [stint.MaxClaims]uint32
	hashes, shards := hashBuf[:0], shardBuf[:0]
	for i := range claims {
		if claims[i].Subject == "" {
			return nil
		}
		h := maphash.String(s.seed, claims[i].Subject)
		hashes, shards = append(hashes, h), append(shards, uint32(h>>s.shift))
	}
	if len(claims) == 0 {
		return nil
	}
	if len(claims) > 1 {
		slices.Sort(shards)
		shards = slices.Compact(shards)
	}
	now := s.read()
	for _, i := range shards {
		s.shards[i].mu.Lock()
		now = max(now, s.shards[i].clock)
	}
	for _, i := range shards {
		s.shards[i].clock = now
	}
	first := &s.shards[shards[0]]
	q := &first.query
	q.store, q.now = s, first.follow(now)
	q.locked = append(q.locked[:0], shards...)
	q.parts, q.views = q.parts[:0], q.views[:0]
	q.claims = slices.Grow(q.claims[:0], len(claims))[:len(claims)]
	for i, h := range hashes {
		c := &q.claims[i]
		c.Claim, c.number, c.shard, c.hash = &claims[i], i, &s.shards[h>>s.shift], h
		c.settled, c.until = false, 0
		c.part = q.part(c, c.Scope, "")
	}
	return q
}

// part returns the index in q.parts of the part for a claim's subject, a scope and a name. It adds
// the part if it is missing.
func (q *query) part(c *claim, scope, name string) int {
	hash := withScope(q.store.seed, c.hash, scope, name)
	n := len(q.parts)
	for i := range n {
		p := &q.parts[i]
		if p.hash == hash && p.name == name && p.scope == scope && p.claim.Subject == c.Subject {
			return i
		}
	}
	q.parts = slices.Grow(q.parts, 1)[:n+1]
	p := &q.parts[n]
	*p = part{claim: c, scope: scope, name: name, hash: hash, rec: c.shard.find(hash, c.Subject, scope, name)}
	if p.rec != nil {
		p.size = p.rec.bytes()
	}
	return n
}

// first returns the part for the first claim's record without a name, which has the request ids.
func (q *query) first() *part { return &q.parts[q.claims[0].part] }

func (p *part) record() *record {
	if p.rec == nil {
		p.number, p.rec = p.claim.shard.insert(p.hash, p.claim.Subject, p.scope, p.name)
		p.added = true
	}
	return p.rec
}

// touch prepares the part's record for a change to a count: it gives the record a generation if
// there is none, and sets the time of the last write. Writes to concurrency limits need neither.
func (p *part) touch(now int64) {
	r := p.rec
	if r.generation == 0 {
		p.claim.shard.draw(r)
	}
	if r.last > now {
		r.stepBack(now)
	}
	r.last = now
}

func (p *part) generation() uint32 {
	if p.rec == nil {
		return 0
	}
	return p.rec.generation
}

// unlock counts the writes and releases the locks. If the store is full, it evicts records.
func (q *query) unlock() {
	s := q.store
	w := written{subject: q.claims[0].Subject, shard: q.claims[0].shard.number, now: q.now}
	overfull := false
	for i := range q.parts {
		p := &q.parts[i]
		if p.rec == nil {
			continue
		}
		w.bytes += int64(p.rec.bytes() - p.size)
		if p.added {
			w.records++
			sh := p.claim.shard
			sh.setClass(p.number, sh.classify(p.rec, q.now))
			overfull = overfull || int(sh.count) > s.perShard
		}
	}
	if w.bytes == 0 && w.records == 0 || !overfull && s.add(&w) {
		q.release()
		return
	}
	w.spare = make([]*record, 0, len(q.parts))
	for _, added := range [...]bool{true, false} { // the records that the call has added come first
		for i := range q.parts {
			if p := &q.parts[i]; p.rec != nil && p.added == added {
				w.spare = append(w.spare, p.rec)
			}
		}
	}
	// First evict from shards with more than perShard records, because their indexes can hold few
	// more.
	for _, i := range q.locked {
		for sh := &s.shards[i]; int(sh.count) > s.perShard && (sh.evictOne(&w, roomy) || sh.evictOne(&w, near)); {
		}
	}
	q.release()
	s.makeRoom(&w)
}

// release releases the locks. It releases the lock of the first shard last, because the query is in
// that shard. It also drops references to the caller's claims.
func (q *query) release() {
	for i := range q.claims {
		q.claims[i].Claim = nil
	}
	for i := len(q.locked) - 1; i >= 0; i-- {
		q.store.shards[q.locked[i]].mu.Unlock()
	}
}
