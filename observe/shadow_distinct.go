package observe

import (
	"maps"
	"math"
	"math/bits"
	"slices"
)

const (
	// distinctExact is up to how many are counted one by one.
	distinctExact = 500

	registerBits = 12
	registers    = 1 << registerBits
	// highestRank is the most that a register can hold: a hash of which all other bits are 0.
	highestRank = 64 - registerBits + 1
)

// distinct counts different hashes in bounded memory: exactly while they are few, and then as
// HyperLogLog does, by Flajolet, Fusy, Gandouet and Meunier (2007), with the estimator of Ertl
// (2017), which has no bias where others need tables. Its standard error is 1.04/√4096, or 1.6 %.
// The zero value has counted none.
//
// It is written by hand because reports show small numbers, which have to be exact; what is left
// for a library are the sixty lines below.
type distinct struct {
	few  map[uint64]struct{}
	many []uint8 // the registers; nil while few has all
}

// add counts a hash.
func (d *distinct) add(hash uint64) {
	if d.many == nil {
		if d.few == nil {
			d.few = map[uint64]struct{}{}
		}
		d.few[hash] = struct{}{}
		if len(d.few) <= distinctExact {
			return
		}
		d.spill()
		return
	}
	d.register(hash)
}

// spill goes over to registers.
func (d *distinct) spill() {
	d.many = make([]uint8, registers)
	for hash := range d.few {
		d.register(hash)
	}
	d.few = nil
}

func (d *distinct) register(hash uint64) {
	at, rest := hash>>(64-registerBits), hash<<registerBits|1<<(registerBits-1)
	d.many[at] = max(d.many[at], uint8(bits.LeadingZeros64(rest)+1))
}

// merge counts what another has counted.
func (d *distinct) merge(e *distinct) {
	if e.many != nil && d.many == nil {
		d.spill()
	}
	for at, rank := range e.many {
		d.many[at] = max(d.many[at], rank)
	}
	for hash := range e.few {
		d.add(hash)
	}
}

func (d *distinct) clone() distinct { return distinct{maps.Clone(d.few), slices.Clone(d.many)} }

// exact reports whether count is.
func (d *distinct) exact() bool { return d.many == nil }

// count returns how many different hashes were added.
func (d *distinct) count() int64 {
	if d.exact() {
		return int64(len(d.few))
	}
	var ranks [highestRank + 1]float64 // how many registers hold each
	for _, rank := range d.many {
		ranks[rank]++
	}
	sum := registers * tau(1-ranks[highestRank]/registers)
	for rank := highestRank - 1; rank >= 1; rank-- {
		sum = (sum + ranks[rank]) / 2
	}
	sum += registers * sigma(ranks[0]/registers)
	return int64(math.Round(min(registers*registers/(2*math.Ln2*sum), 1<<62))) // the sum is 0 if every register is full
}

// sigma is x + Σ x^(2^k)·2^(k-1) for k from 1: what registers that hold nothing stand for, of which
// x is the share. Some hold something, so x is below 1.
func sigma(x float64) float64 {
	sum, weight := x, 1.0
	for {
		x *= x
		before := sum
		sum += x * weight
		weight *= 2
		if sum == before {
			return sum
		}
	}
}

// tau is (1 - x - Σ (1-x^(2^-k))²·2^-k)/3 for k from 1: what registers that are full stand for, of
// which 1-x is the share.
func tau(x float64) float64 {
	if x <= 0 || x >= 1 {
		return 0
	}
	sum, weight := 1-x, 1.0
	for {
		x = math.Sqrt(x)
		before := sum
		weight /= 2
		sum -= (1 - x) * (1 - x) * weight
		if sum == before {
			return sum / 3
		}
	}
}
