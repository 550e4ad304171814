package stint

import (
	"slices"

	"github.com/stint-limiter/stint/internal/protocol"
)

// Charge identifies what a decision charged. Callers pass it on unchanged, to refund or settle it.
// The zero Charge stands for no charge. A program that wraps stores can send charges to other
// processes; see package driver. Other programs use [Limiter.GiveBack] in a process that does not
// have the charge.
type Charge struct {
	one  [1]Claim // inline, so that most decisions allocate nothing
	many *[]Claim // the claims if there are several, else nil
	data protocol.ChargeData
}

// IsZero reports whether nothing was charged, for example because the request was denied, was a
// peek or had a cost of zero. An allowed repeat has the charge of the original request; see
// [Request.ID].
func (c *Charge) IsZero() bool { return c.data.ID == 0 }

// Claims returns the claims of the request, even if nothing was charged. If something was charged,
// each claim has the cost that was charged. Callers must not change the claims.
func (c *Charge) Claims() []Claim {
	if c.many != nil {
		return *c.many
	}
	return c.one[:]
}

// SetClaims sets the claims of the charge to copies of claims. Stores call it when they make
// decisions.
func (c *Charge) SetClaims(claims []Claim) {
	if len(claims) == 1 {
		c.one[0], c.many = claims[0], nil
		return
	}
	c.one[0] = Claim{}
	if c.many = nil; len(claims) > 1 {
		many := slices.Clone(claims)
		c.many = &many
	}
}

// Data returns the store's data about the charge, as a *driver.ChargeData. Programs that only apply
// limits do not need it.
func (c *Charge) Data() *protocol.ChargeData { return &c.data }

// check records a mistake if the charge cannot be amended, because no decision can have produced it
// or because nothing was charged.
func (c *Charge) check(m *mistakes) {
	if c.many == nil && c.one[0].Subject == "" {
		m.add("the charge has no claims; want the charge of a decision, or a Part of it with indexes of its claims")
		return
	}
	r := Request{Claims: c.Claims(), ID: c.data.RequestID, IDLife: c.data.IDLife, Hold: c.data.Hold}
	if r.check(m); m.errs != nil {
		return
	}
	var others protocol.OtherStates
	if c.data.Others != nil {
		others = *c.data.Others
	}
	states, further := c.states(), len(r.Claims)-1
	switch {
	case c.data.ID == 0:
		m.add("the charge has no ID: nothing was charged")
	case c.data.At < 0 || c.data.At > MaxUnits:
		m.add("the charge is at the instant %d; want 0 to %d", c.data.At, MaxUnits)
	case states > 1 && len(others.Generations) != states-1:
		m.add("the charge has %d generations for %d states", len(others.Generations)+1, states)
	case others.At != nil && len(others.At) != further:
		m.add("the charge has %d instants for %d claims", len(others.At)+1, further+1)
	}
}

// Part returns the part of the charge that has the claims with the given indexes. Amending a part
// amends only those claims. For example, this settles the claim of a budget to the actual cost of
// a request, while the limits on the number of requests still count one request:
//
//	d.Charge = d.Charge.Part(1)
//	settled, err := limiter.Settle(ctx, d, tokens)
//
// A part refers to the same charge. Claims of one subject and scope can be settled only together,
// once: put them in the same part. Only a part that has the first claim has the request ID. Without
// indexes, Part returns the zero Charge. If an index is out of range and something was charged,
// amending the part fails with an [*InvalidError].
func (c Charge) Part(indexes ...int) Charge {
	indexes = slices.Compact(slices.Sorted(slices.Values(indexes)))
	claims := c.Claims()
	var of protocol.OtherStates
	if c.data.Others != nil {
		of = *c.data.Others
	}
	if len(indexes) == 0 {
		return Charge{}
	}
	if indexes[0] < 0 || indexes[len(indexes)-1] >= len(claims) ||
		of.At != nil && len(of.At) != len(claims)-1 || of.Now != nil && len(of.Now) != len(claims)-1 {
		return Charge{data: protocol.ChargeData{ID: c.data.ID}} // without a subject, so check refuses it
	}
	part := Charge{data: c.data}
	data := &part.data
	data.At, data.Now, data.Others, data.Leased = c.data.AtOf(indexes[0]), c.data.NowOf(indexes[0]), nil, 0
	if indexes[0] > 0 {
		data.RequestID, data.IDLife = "", 0
	}
	kept := make([]Claim, len(indexes))
	var others protocol.OtherStates
	for k, i := range indexes {
		kept[k] = claims[i]
		data.Leased |= c.data.Leased >> i & 1 << k
		if k > 0 && of.At != nil {
			others.At = append(others.At, c.data.AtOf(i))
		}
		if k > 0 && of.Now != nil {
			others.Now = append(others.Now, c.data.NowOf(i))
		}
	}
	part.SetClaims(kept)
	var generations []uint32
	state := 0
	for i := range claims {
		for range claims[i].states() {
			if slices.Contains(indexes, i) {
				generations = append(generations, c.data.GenerationAt(state))
			}
			state++
		}
	}
	data.Generation = 0
	if len(generations) > 0 {
		data.Generation, others.Generations = generations[0], generations[1:]
	}
	if len(others.Generations) > 0 || others.At != nil || others.Now != nil {
		data.Others = &others
	}
	return part
}

func (c *Charge) states() (n int) {
	claims := c.Claims()
	for i := range claims {
		n += claims[i].states()
	}
	return n
}
