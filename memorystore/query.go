package memorystore

import (
	"hash/maphash"
	"slices"

	"github.com/stint-limiter/stint"
)

// query is one call in progress. Each shard has one, so that a call allocates
// nothing; a call over several shards uses that of the first.
type query struct {
	store  *Store
	now    int64
	parts  []part
	views  []view
	locked []uint32 // shards, if there are several
	grown  int64    // bytes
}

// part is one claim of a call.
type part struct {
	shard   *shard
	rec     *record // nil if nothing is known
	subject uint64  // hash
	hash    uint64  // of subject and scope
	first   int     // the views of its limits
	end     int
}

// claimAt is the i-th of a first claim and others.
func claimAt(first *stint.Claim, and []stint.Claim, i int) *stint.Claim {
	if i == 0 {
		return first
	}
	return &and[i-1]
}

// lock takes the locks of all claims' shards, in order, and finds their records.
// It returns nil if a claim is none. See unlock.
func (s *Store) lock(first *stint.Claim, and []stint.Claim) *query {
	if len(and) == 0 {
		if first.Subject == "" {
			return nil
		}
		h := maphash.String(s.seed, first.Subject)
		sh := &s.shards[h>>s.shift]
		now := s.read()
		sh.mu.Lock()
		q := &sh.query
		q.begin(s, sh.follow(now), 1)
		q.find(0, sh, h, first)
		return q
	}
	return s.lockMany(first, and)
}

func (s *Store) lockMany(first *stint.Claim, and []stint.Claim) *query {
	var buf [stint.MaxClaims]uint64
	var order [stint.MaxClaims]uint32
	hashes, shards := buf[:0], order[:0]
	for i := range len(and) + 1 {
		c := claimAt(first, and, i)
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
		q.find(i, &s.shards[h>>s.shift], h, claimAt(first, and, i))
	}
	return q
}

func (q *query) begin(s *Store, now int64, claims int) {
	q.store, q.now, q.grown = s, now, 0
	q.locked = q.locked[:0]
	q.views = q.views[:0]
	if cap(q.parts) < claims {
		q.parts = make([]part, claims)
	}
	q.parts = q.parts[:claims]
}

func (q *query) find(i int, sh *shard, subject uint64, c *stint.Claim) {
	p := &q.parts[i]
	p.shard, p.subject = sh, subject
	p.hash = withScope(q.store.seed, subject, c.Scope)
	p.rec = sh.find(p.hash, c.Subject, c.Scope)
}

// unlock settles the accounts and gives the locks back.
func (q *query) unlock() {
	if q.grown != 0 {
		if q.store.bytes.Add(q.grown); q.grown > 0 {
			q.trim()
		}
	}
	if len(q.locked) == 0 {
		q.parts[0].shard.mu.Unlock()
		return
	}
	// The query is the first shard's: that lock goes last.
	for i := len(q.locked) - 1; i >= 0; i-- {
		q.store.shards[q.locked[i]].mu.Unlock()
	}
}

// trim evicts while the store is too large.
func (q *query) trim() {
	for i := range q.parts {
		q.parts[i].shard.trim(q)
	}
}

// open opens every limit of every claim. It only looks if told to or if a claim
// costs nothing.
func (q *query) open(first *stint.Claim, and []stint.Claim, look bool) {
	n := 0
	for i := range q.parts {
		n += len(claimAt(first, and, i).Limits)
	}
	if cap(q.views) < n {
		q.views = make([]view, n)
	}
	q.views = q.views[:n]
	n = 0
	for i := range q.parts {
		p, c := &q.parts[i], claimAt(first, and, i)
		p.first = n
		for k := range c.Limits {
			q.views[n].open(p.shard, p.rec, &c.Limits[k], q.now, look || c.Cost == 0)
			n++
		}
		p.end = n
	}
}

// record returns the part's record, a new one if it has none.
func (q *query) record(p *part, c *stint.Claim) *record {
	if p.rec == nil {
		// An earlier claim on the same subject and scope may have made one.
		if p.rec = p.shard.find(p.hash, c.Subject, c.Scope); p.rec == nil {
			p.rec = p.shard.insert(p.hash, c.Subject, c.Scope)
			q.grown += int64(p.rec.bytes())
		}
	}
	return p.rec
}

// banRecord returns the record that holds the ban of a claim's subject, or nil.
func (q *query) banRecord(p *part, c *stint.Claim) *record {
	if p.shard.bans == 0 {
		return nil
	}
	if c.Scope == "" {
		return p.rec
	}
	return p.shard.find(p.subject, c.Subject, "")
}

// newBan returns the ban of a claim's subject, a new one if there is none.
func (q *query) newBan(p *part, c *stint.Claim) *ban {
	r := p.shard.find(p.subject, c.Subject, "")
	if r == nil {
		r = p.shard.insert(p.subject, c.Subject, "")
		q.grown += int64(r.bytes())
	}
	if banOf(r) == nil {
		before := r.rest.bytes()
		r.more().ban = new(ban)
		p.shard.bans++
		q.grown += int64(r.rest.bytes() - before)
	}
	return r.rest.ban
}
