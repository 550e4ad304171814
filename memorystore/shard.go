package memorystore

import (
	"math/rand/v2"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// shard holds the subjects whose hash it is given, in all their scopes, under
// one lock.
type shard struct {
	mu    sync.Mutex
	clock int64 // the latest reading that was used, if the clock cannot step
	store *Store

	index  index
	pieces []*piece // of records; they never move
	count  uint32   // records there ever were, free ones included
	free   uint32   // the first free record plus one, linked by tag
	live   int      // records in use
	bans   int      // records that have a ban or strikes

	variants  []*variant // by tag; the first is not used
	variantOf map[stint.Limit]uint32

	serial, serialStep uint64 // of charges
	generation         uint32 // the latest that was drawn

	sweepAt, hand uint32
	quicks        [maxQuick]algorithm.View
	query         query
	_             [64]byte // the next shard's lock is on another cache line
}

// piece is a run of records.
type piece [pieceSize]record

const pieceSize = 32

func (sh *shard) open(s *Store, i, shards int) {
	sh.store = s
	sh.variants = make([]*variant, 1, 4)
	sh.variantOf = make(map[stint.Limit]uint32)
	sh.serialStep = uint64(shards)
	sh.serial = firstSerial()*sh.serialStep + uint64(i)
	sh.generation = rand.Uint32()
}

// draw gives a state a generation that none of its key had before.
func (sh *shard) draw(r *record) {
	if sh.generation++; sh.generation == 0 {
		sh.generation++
	}
	r.generation = sh.generation
}

// nextSerial returns a charge id that no other charge has.
func (sh *shard) nextSerial() uint64 {
	sh.serial += sh.serialStep
	return sh.serial
}

func (sh *shard) record(n uint32) *record { return &sh.pieces[n/pieceSize][n%pieceSize] }

// find returns the record of a subject, scope and name with that hash, or nil.
func (sh *shard) find(hash uint64, subject, scope, name string) *record {
	x := &sh.index
	if x.used == 0 {
		return nil
	}
	tag := tagOf(hash)
	for i := x.home(hash); ; i = x.next(i) {
		p := x.places[i]
		if p == 0 {
			return nil
		}
		if p&(255<<24) == tag {
			if r := sh.record(p&(1<<24-1) - 1); r.hasKey(subject, scope, name) {
				return r
			}
		}
	}
}

// insert adds an empty record for a key that has none. The caller accounts for
// its bytes.
func (sh *shard) insert(hash uint64, subject, scope, name string) *record {
	if sh.index.full() {
		sh.grow()
	}
	n := sh.free - 1
	if sh.free != 0 {
		sh.free = sh.record(n).count.Tag
		sh.record(n).count.Tag = 0
	} else {
		n = sh.count
		if int(n) == len(sh.pieces)*pieceSize {
			sh.addPieces()
		}
		sh.count++
	}
	r := sh.record(n)
	r.setKey(subject, scope, name)
	sh.index.put(hash, n)
	sh.live++
	sh.store.subjects.Add(1)
	return r
}

// grow rebuilds the index with more places.
func (sh *shard) grow() {
	sh.index.grow()
	for n := range sh.count {
		if r := sh.record(n); r.size != 0 {
			sh.index.put(r.hash(sh.store.seed), n)
		}
	}
}

// addPieces makes room for more records: an eighth more, in allocations that grow
// to a size at which the allocator rounds nothing up.
func (sh *shard) addPieces() {
	n := 1
	for n < 16 && n*8 < len(sh.pieces) {
		n *= 2
	}
	block := make([]piece, n)
	for i := range block {
		sh.pieces = append(sh.pieces, &block[i])
	}
}

// remove forgets a record.
func (sh *shard) remove(n uint32) {
	r := sh.record(n)
	sh.store.bytes.Add(-int64(r.bytes()))
	sh.store.subjects.Add(-1)
	sh.index.remove(r.hash(sh.store.seed), n, func(n uint32) uint64 { return sh.record(n).hash(sh.store.seed) })
	sh.live--
	if banOf(r) != nil {
		sh.bans--
	}
	sh.untag(r.count.Tag)
	if r.rest != nil {
		for i := range r.rest.counts {
			sh.untag(r.rest.counts[i].Tag)
		}
		for i := range r.rest.holders {
			sh.untag(r.rest.holders[i].Tag)
		}
	}
	*r = record{}
	r.count.Tag = sh.free
	sh.free = n + 1
	if sh.live == 0 {
		sh.index, sh.pieces, sh.count, sh.free, sh.sweepAt, sh.hand = index{}, nil, 0, 0, 0, 0
	}
}
