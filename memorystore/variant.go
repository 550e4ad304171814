package memorystore

import (
	"strings"
	"unsafe"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/internal/algorithm"
)

// variant is a limit under which some state in the shard was last written, with its parameters. A
// state refers to its variant by a four-byte tag. Two variants may have the same ID and differ in
// Max or Burst, for example.
type variant struct {
	limit  stint.Limit
	params algorithm.Params
	states int // number of states with this tag
}

// bytes returns the number of bytes that the variant takes, including its entries in the list and
// the map of variants.
func (v *variant) bytes() int64 {
	return int64(allocated(unsafe.Sizeof(*v))+2*unsafe.Sizeof(v.limit)+24) + int64(len(v.limit.Name))
}

// tag returns a limit's tag, and records that one more state has it.
func (sh *shard) tag(l *stint.Limit) uint32 {
	t := sh.tagOf(l)
	if t == 0 {
		v := &variant{limit: *l}
		v.limit.Name, v.limit.Zone = strings.Clone(l.Name), strings.Clone(l.Zone)
		v.params = algorithm.Of(&v.limit)
		t = sh.freeTag(v)
		sh.variantOf[v.limit] = t
		sh.store.bytes.Add(v.bytes())
	}
	sh.variants[t].states++
	return t
}

// tagOf returns a limit's tag, or 0 if it has none.
func (sh *shard) tagOf(l *stint.Limit) uint32 {
	if len(sh.variants) > 1 {
		if v := sh.variants[1]; v != nil && v.limit == *l {
			return 1
		}
	}
	return sh.variantOf[*l]
}

func (sh *shard) freeTag(v *variant) uint32 {
	for t := 1; t < len(sh.variants); t++ {
		if sh.variants[t] == nil {
			sh.variants[t] = v
			return uint32(t)
		}
	}
	sh.variants = append(sh.variants, v)
	return uint32(len(sh.variants) - 1)
}

// untag records that a state no longer has the tag t. It is called for every state that is
// forgotten.
func (sh *shard) untag(t uint32) {
	if t == 0 {
		return
	}
	v := sh.variants[t]
	if v.states--; v.states == 0 {
		sh.store.bytes.Add(-v.bytes())
		delete(sh.variantOf, v.limit)
		sh.variants[t] = nil
	}
}
