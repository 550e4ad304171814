package memorystore

import (
	"hash/maphash"
	"slices"

	"github.com/stint-limiter/stint"
)

// query is one call in progress. Each shard has one, so that a call allocates nothing; a call over
// several shards uses that of the first.
type query struct {
	store  *Store
	now    int64
	claims int
	parts  []part // one per claim, then one per claim and name of its limits
	views  []view
	locked []uint32 // shards, if there are several
	grown  int64    // bytes, but for what the shards have noted
	added  []added
}

// added is a record that the call has inserted.
type added struct {
	shard *shard
	n     uint32
}

// part is one claim of a call, or its limits with a name.
type part struct {
	shard   *shard
	rec     *record // nil if nothing is known
	claim   int
	name    string
	subject uint64 // hash
	hash    uint64 // of subject, scope and name

	first, end int  // of a claim, the views of its limits
	stale      bool // the state is not the one that was charged, in an amendment
}

// lock takes the locks of all claims' shards, in order, and finds their records. It returns nil if
// a claim is none. See unlock.
func (s *Store) lock(claims []stint.Claim) *query {
	if len(claims) == 1 {
		c := &claims[0]
		if c.Subject == "" {
			return nil
		}
		h := maphash.String(s.seed, c.Subject)
		sh := &s.shards[h>>s.shift]
		now := s.read()
		sh.mu.Lock()
		q := &sh.query
		q.begin(s, sh.follow(now), 1)
		q.find(0, sh, h, c)
		return q
	}
	return s.lockMany(claims)
}

func (s *Store) lockMany(claims []stint.Claim) *query {
	var buf [stint.MaxClaims]uint64
	var order [stint.MaxClaims]uint32
	hashes, shards := buf[:0], order[:0]
	for i := range claims {
		c := &claims[i]
		if c.Subject == "" {
			return nil
		}
		h := maphash.String(s.seed, c.Subject)
		hashes, shards = append(hashes, h), append(shards, uint32(h>>s.shift))
	}
	slices.Sort(shards)
	shards = slices.Compact(shards)
	now := s.read()
	for _, i := range shards {
		s.shards[i].mu.Lock()
		now = max(now, s.shards[i].clock)
	}
	for _, i := range shards {
		s.shards[i].clock = now
	}
	sh := &s.shards[shards[0]]
	q := &sh.query
	q.begin(s, sh.follow(now), len(hashes))
	q.locked = append(q.locked, shards...)
	for i, h := range hashes {
		q.find(i, &s.shards[h>>s.shift], h, &claims[i])
	}
	return q
}

func (q *query) begin(s *Store, now int64, claims int) {
	q.store, q.now, q.claims, q.grown = s, now, claims, 0
	q.locked, q.added = q.locked[:0], q.added[:0]
	q.views = q.views[:0]
	if cap(q.parts) < claims {
		q.parts = make([]part, claims)
	}
	q.parts = q.parts[:claims]
}

func (q *query) find(i int, sh *shard, subject uint64, c *stint.Claim) {
	hash := withScope(q.store.seed, subject, c.Scope, "")
	q.parts[i] = part{shard: sh, rec: sh.find(hash, c.Subject, c.Scope, ""), claim: i, subject: subject, hash: hash}
}

// partOf returns the number of the part of a claim's limits with a name.
func (q *query) partOf(i int, c *stint.Claim, name string) int {
	if name == "" {
		return i
	}
	for k := q.claims; k < len(q.parts); k++ {
		if q.parts[k].claim == i && q.parts[k].name == name {
			return k
		}
	}
	p := part{shard: q.parts[i].shard, claim: i, name: name, subject: q.parts[i].subject}
	p.hash = withScope(q.store.seed, p.subject, c.Scope, name)
	p.rec = p.shard.find(p.hash, c.Subject, c.Scope, name)
	q.parts = append(q.parts, p)
	return len(q.parts) - 1
}

// unlock counts what was written and gives the locks back.
func (q *query) unlock() {
	for i := range q.parts {
		sh := q.parts[i].shard
		q.grown += sh.grown
		sh.grown = 0
	}
	for _, a := range q.added {
		a.shard.setClass(a.n, a.shard.classify(a.shard.record(a.n), q.now))
	}
	s, records := q.store, int64(len(q.added))
	if q.grown == 0 && records == 0 || !q.overfull() && s.add(q.grown, records, s.bounds) {
		q.release()
		return
	}
	own := q.parts[0].shard
	var buf [8]*record
	w := written{shard: own.number, now: q.now, bytes: q.grown, records: records, spare: q.inUse(buf[:0])}
	for i := range q.parts {
		q.parts[i].shard.unfill(&w)
	}
	own.evictIfHeavy(&w)
	q.release()
	s.makeRoom(&w)
}

// inUse appends the records that the call has inserted or found.
func (q *query) inUse(list []*record) []*record {
	for _, a := range q.added {
		list = append(list, a.shard.record(a.n))
	}
	for i := range q.parts {
		if r := q.parts[i].rec; r != nil {
			list = append(list, r)
		}
	}
	return list
}

// overfull reports whether a shard has got more records than it may have.
func (q *query) overfull() bool {
	for i := range q.parts {
		if int(q.parts[i].shard.count) > q.store.perShard {
			return true
		}
	}
	return false
}

// release gives the locks back.
func (q *query) release() {
	if len(q.locked) == 0 {
		q.parts[0].shard.mu.Unlock()
		return
	}
	// The query is the first shard's: that lock goes last.
	for i := len(q.locked) - 1; i >= 0; i-- {
		q.store.shards[q.locked[i]].mu.Unlock()
	}
}

// open opens every limit of every claim. It writes nothing if look is set, nor for a claim that
// costs nothing.
func (q *query) open(claims []stint.Claim, look bool) {
	n := 0
	for i := range q.claims {
		n += len(claims[i].Limits)
	}
	if cap(q.views) < n {
		q.views = make([]view, n)
	}
	q.views = q.views[:n]
	n = 0
	for i := range q.claims {
		c := &claims[i]
		q.parts[i].first = n
		for k := range c.Limits {
			v, l := &q.views[n], &c.Limits[k]
			v.part = i
			if l.Name != "" && l.Algorithm != stint.AlgorithmConcurrency {
				v.part = q.partOf(i, c, l.Name)
			}
			p := &q.parts[v.part]
			v.open(p.shard, p.rec, l, q.now, look || c.Cost == 0)
			n++
		}
		q.parts[i].end = n
	}
}

// record returns the part's record, a new one if it has none.
func (q *query) record(p *part, c *stint.Claim) *record {
	if p.rec == nil {
		// An earlier claim on the same subject and scope may have made one.
		if p.rec = p.shard.find(p.hash, c.Subject, c.Scope, p.name); p.rec == nil {
			p.rec = q.insert(p, p.hash, c.Subject, c.Scope, p.name)
		}
	}
	return p.rec
}

// insert adds a record to a part's shard.
func (q *query) insert(p *part, hash uint64, subject, scope, name string) *record {
	n, r := p.shard.insert(hash, subject, scope, name)
	q.added = append(q.added, added{p.shard, n})
	q.grown += int64(r.bytes())
	return r
}

// banRecord returns the record that holds the ban of a claim's subject, or nil.
func (q *query) banRecord(p *part, c *stint.Claim) *record {
	if p.shard.bans == 0 {
		return nil
	}
	if c.Scope == "" {
		return p.rec
	}
	return p.shard.find(p.subject, c.Subject, "", "")
}

// newBan returns the ban of a claim's subject, a new one if there is none.
func (q *query) newBan(p *part, c *stint.Claim) *ban {
	r := p.shard.find(p.subject, c.Subject, "", "")
	if r == nil {
		r = q.insert(p, p.subject, c.Subject, "", "")
	}
	if banOf(r) == nil {
		before := r.rest.bytes()
		r.more().ban = new(ban)
		p.shard.bans++
		q.grown += int64(r.rest.bytes() - before)
	}
	return r.rest.ban
}
