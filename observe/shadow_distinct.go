package observe

import (
	"maps"

	"github.com/axiomhq/hyperloglog"
)

const (
	// distinctExact is the maximum number of hashes that are counted exactly.
	distinctExact = 500
	// distinctPrecision is the precision of the estimate: it uses 2^12 one-byte registers, so its
	// standard error is 1.04/√4096, or 1.6%.
	distinctPrecision = 12
)

// distinct counts distinct hashes in bounded memory. Up to distinctExact it counts exactly, because
// errors in small numbers would be visible in reports. Above that it estimates with HyperLogLog.
// The zero value is empty.
type distinct struct {
	few  map[uint64]struct{}
	many *hyperloglog.Sketch // nil while few holds all hashes
}

func (d *distinct) add(hash uint64) {
	if d.many != nil {
		d.many.InsertHash(hash)
		return
	}
	if d.few == nil {
		d.few = map[uint64]struct{}{}
	}
	d.few[hash] = struct{}{}
	if len(d.few) > distinctExact {
		d.spill()
	}
}

// spill switches from exact counting to estimating.
func (d *distinct) spill() {
	d.many, _ = hyperloglog.NewSketch(distinctPrecision, false) // cannot fail with this precision
	for hash := range d.few {
		d.many.InsertHash(hash)
	}
	d.few = nil
}

func (d *distinct) merge(e *distinct) {
	if e.many != nil {
		if d.many == nil {
			d.spill()
		}
		_ = d.many.Merge(e.many) // cannot fail, because all precisions are equal
	}
	for hash := range e.few {
		d.add(hash)
	}
}

func (d *distinct) clone() distinct {
	c := distinct{few: maps.Clone(d.few)}
	if d.many != nil {
		c.many = d.many.Clone()
	}
	return c
}

func (d *distinct) exact() bool { return d.many == nil }

// count returns the number of distinct hashes. It is an estimate unless exact returns true.
func (d *distinct) count() int64 {
	if d.exact() {
		return int64(len(d.few))
	}
	return int64(d.many.Estimate())
}
