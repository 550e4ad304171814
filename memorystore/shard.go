package memorystore

import (
	"math/rand/v2"
	"sync"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// shard has the subjects in one range of hashes, with all their scopes, under one lock.
type shard struct {
	mu    sync.Mutex
	clock int64 // time of the latest call; unused with Config.Now
	store *Store

	number uint32 // index of the shard

	index  index
	pieces []*piece // the records; a record moves only when another is removed
	roomy  []uint32 // class of each record: a bit per record, a word per piece
	count  uint32   // number of records
	bans   int      // records that have a ban or strikes

	variants  []*variant // variants by tag; the first is unused
	variantOf map[stint.Limit]uint32

	serial, serialStep uint64 // the latest charge id, and the increment to the next
	generation         uint32 // the latest generation drawn

	sweepAt uint32                   // number of the record at which the sweeper continues
	hand    uint32                   // number of the last evicted record
	plain   [maxPlain]algorithm.View // used by TakePlain
	query   query
	_       [64]byte // puts the next shard's lock on a different cache line
}

// piece is an array of records with consecutive numbers.
type piece [pieceSize]record

const pieceSize = 32

func (sh *shard) open(s *Store, i, shards int) {
	sh.store, sh.number = s, uint32(i)
	sh.variants = make([]*variant, 1, 4)
	sh.variantOf = make(map[stint.Limit]uint32)
	sh.serialStep = uint64(shards)
	// Random, so that a charge of an earlier process is not mistaken for a charge of this one.
	sh.serial = (rand.Uint64N(1<<40)+1)*sh.serialStep + uint64(i)
	sh.generation = rand.Uint32()
}

// draw gives a record a generation that no earlier record with the same key had.
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

// find returns the record of a subject, scope and name with the given hash, or nil.
func (sh *shard) find(hash uint64, subject, scope, name string) *record {
	x := &sh.index
	if x.used == 0 {
		return nil
	}
	bits := hashBits(hash)
	for i := x.home(hash); ; i = x.next(i) {
		slot := x.slots[i]
		if slot == 0 {
			return nil
		}
		if slot&(255<<24) == bits {
			if r := sh.record(slot&(1<<24-1) - 1); r.hasKey(subject, scope, name) {
				return r
			}
		}
	}
}

// insert adds an empty record for a key that has none, and returns the record and its number. The
// caller must count the record's bytes, and set its class after writing it.
func (sh *shard) insert(hash uint64, subject, scope, name string) (n uint32, r *record) {
	if sh.index.full() {
		sh.reindex(len(sh.index.slots) + len(sh.index.slots)/2)
	}
	n = sh.count
	if int(n) == len(sh.pieces)*pieceSize {
		sh.pieces = append(sh.pieces, new(piece))
		sh.roomy = append(sh.roomy, 0)
	}
	sh.count++
	r = sh.record(n)
	r.setKey(subject, scope, name)
	sh.index.put(hash, n)
	sh.loads()[near].Add(1)
	return n, r
}

func (sh *shard) reindex(slots int) {
	sh.index.clear(slots)
	for n := range sh.count {
		sh.index.put(sh.record(n).hash(sh.store.seed), n)
	}
}

// shrink frees memory, but keeps room for about a sixteenth more records.
func (sh *shard) shrink() {
	if sh.count == 0 {
		sh.index, sh.pieces, sh.roomy, sh.sweepAt, sh.hand = index{}, nil, nil, 0, 0
		sh.letGo()
		return
	}
	if n := len(sh.index.slots); n > 16 && sh.index.used < n*3/8 {
		sh.reindex(n * 5 / 8)
	}
	used := int(sh.count) / pieceSize
	if keep := used + used/16 + 2; keep < len(sh.pieces) {
		clear(sh.pieces[keep:])
		sh.pieces = sh.pieces[:keep]
		sh.roomy = sh.roomy[:keep]
		sh.letGo()
	}
}

// letGo clears the views and parts that earlier calls have used, because they would keep records
// from being garbage-collected.
func (sh *shard) letGo() {
	sh.plain = [maxPlain]algorithm.View{}
	q := &sh.query
	clear(q.views[:cap(q.views)])
	for i := range q.parts[:cap(q.parts)] {
		q.parts[:cap(q.parts)][i].rec = nil
	}
}

// remove forgets a record. The last record takes its number.
func (sh *shard) remove(n uint32) {
	r := sh.record(n)
	bytes := int64(r.bytes())
	sh.index.remove(r.hash(sh.store.seed), n, func(n uint32) uint64 { return sh.record(n).hash(sh.store.seed) })
	if banOf(r) != nil {
		sh.bans--
	}
	for i := range r.states() {
		sh.untag(r.state(i).Owner)
	}
	sh.count--
	last := sh.record(sh.count)
	if n != sh.count {
		sh.index.move(last.hash(sh.store.seed), sh.count, n)
		*r = *last
		sh.setClass(n, sh.classOf(sh.count))
	}
	sh.setClass(sh.count, near)
	sh.loads()[near].Add(-1)
	*last = record{}
	sh.store.subjects.Add(-1)
	sh.store.bytes.Add(-bytes)
	sh.shrink()
}
