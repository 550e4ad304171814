package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
)

// charged is a charge, and which of its claims count the cost, as bits.
type charged struct {
	stint.Charge
	priced uint16
}

// costs returns which claims count the cost, by number.
func (c *charged) costs() (claims []int) {
	for i := range 1 + len(c.And) {
		if c.priced&(1<<i) != 0 {
			claims = append(claims, i)
		}
	}
	return claims
}

// seal makes texts of charges, and charges of the texts that it has made itself.
type seal struct{ key [sha256.Size]byte }

// newSeal returns a seal with a key of its own, so that what it signs is good for nothing else.
func newSeal(key []byte) seal {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("stint charge"))
	var s seal
	mac.Sum(s.key[:0])
	return s
}

// A text is the URL-safe base64 of a version, the fields of the charge, and a signature over both.
// Numbers are varints, but for generations, which are random and have four bytes. Texts have their
// length before them.
const (
	chargeVersion = 2
	signatureSize = 16
	maxCharge     = 48 << 10 // of the text
)

var (
	errNotCharge  = errors.New(`is not a charge; want the text under "charge" of an answer, as it is`)
	errNotSigned  = errors.New("was not made here, or has been changed; processes that amend each other's charges need the same key")
	errNewVersion = errors.New("is of another version of the server")
)

// text returns the text of a charge; "" if nothing was charged.
func (s *seal) text(c *charged) string {
	if c.ID == 0 {
		return ""
	}
	b := appendCharge([]byte{chargeVersion}, c)
	return base64.RawURLEncoding.EncodeToString(append(b, s.sign(b)...))
}

// open returns the charge of a text.
func (s *seal) open(text string) (charged, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= signatureSize || strings.ContainsAny(text, "\r\n") { // which the decoder passes over
		return charged{}, errNotCharge
	}
	b, signature := b[:len(b)-signatureSize], b[len(b)-signatureSize:]
	switch {
	case !hmac.Equal(signature, s.sign(b)):
		return charged{}, errNotSigned
	case b[0] != chargeVersion:
		return charged{}, errNewVersion
	}
	d := chargeDecoder{rest: b[1:]}
	c := d.charge()
	if d.failed || len(d.rest) > 0 || (stint.Amendment{}).Validate(&c.Charge) != nil {
		return charged{}, errNotCharge
	}
	return c, nil
}

func (s *seal) sign(b []byte) []byte {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write(b)
	return mac.Sum(nil)[:signatureSize]
}

func appendCharge(b []byte, c *charged) []byte {
	b = binary.AppendUvarint(b, c.ID)
	b = binary.AppendUvarint(b, uint64(c.At))
	b = binary.LittleEndian.AppendUint32(b, c.Generation)
	b = append(b, originOf(&c.Charge))
	b = binary.AppendUvarint(b, uint64(c.priced))
	b = appendText(b, c.RequestID)
	if c.RequestID != "" {
		b = binary.AppendUvarint(b, uint64(c.IDLife.Microseconds()))
	}
	b = appendClaim(b, &c.Claim)
	and := c.And
	b = binary.AppendUvarint(b, uint64(len(and)))
	for i := range and {
		b = appendClaim(b, &and[i])
	}
	var at []int64
	var generations []uint32
	if c.Others != nil {
		at, generations = c.Others.At, c.Others.Generations
	}
	b = binary.AppendUvarint(b, uint64(len(at)))
	for _, t := range at {
		b = binary.AppendUvarint(b, uint64(t))
	}
	b = binary.AppendUvarint(b, uint64(len(generations)))
	for _, g := range generations {
		b = binary.LittleEndian.AppendUint32(b, g)
	}
	return b
}

func appendClaim(b []byte, c *stint.Claim) []byte {
	b = appendText(b, c.Subject)
	b = appendText(b, c.Scope)
	b = binary.AppendUvarint(b, uint64(c.Cost))
	b = appendBool(b, c.Shared)
	b = binary.AppendUvarint(b, uint64(len(c.Limits)))
	for i := range c.Limits {
		l := &c.Limits[i]
		b = binary.AppendUvarint(b, uint64(l.Max))
		b = binary.AppendUvarint(b, uint64(l.Window.Microseconds()))
		b = binary.AppendUvarint(b, uint64(l.Burst))
		b = binary.AppendUvarint(b, uint64(l.Algorithm))
		b = appendBool(b, l.Leased)
		b = appendText(b, l.Name)
	}
	return b
}

// Where a charge was made, if not in the store.
const (
	fromFallback = 1
	fromLease    = 2
)

func originOf(c *stint.Charge) byte {
	switch {
	case c.Fallback:
		return fromFallback
	case c.Leased:
		return fromLease
	}
	return 0
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// chargeDecoder reads what appendCharge has written. Once it has failed, all else that it reads is
// zero.
type chargeDecoder struct {
	rest   []byte
	failed bool
}

func (d *chargeDecoder) charge() charged {
	var c charged
	c.ID = d.number()
	c.At = int64(d.number())
	c.Generation = d.generation()
	origin := d.small()
	c.Fallback, c.Leased = origin == fromFallback, origin == fromLease
	c.priced = uint16(d.count(math.MaxUint16))
	if c.RequestID = d.text(); c.RequestID != "" {
		c.IDLife = time.Duration(d.number()) * time.Microsecond
	}
	c.Claim = d.claim()
	for range d.count(stint.MaxClaims) {
		c.And = append(c.And, d.claim())
	}
	var others stint.OtherStates
	for range d.count(stint.MaxClaims) {
		others.At = append(others.At, int64(d.number()))
	}
	for range d.count(stint.MaxClaims * stint.MaxLimits) {
		others.Generations = append(others.Generations, d.generation())
	}
	if others.At != nil || others.Generations != nil {
		c.Others = &others
	}
	return c
}

func (d *chargeDecoder) claim() stint.Claim {
	c := stint.Claim{Subject: d.text(), Scope: d.text(), Cost: int64(d.number()), Shared: d.small() == 1}
	for range d.count(stint.MaxLimits) {
		c.Limits = append(c.Limits, stint.Limit{
			Max: int64(d.number()), Window: time.Duration(d.number()) * time.Microsecond, Burst: int64(d.number()),
			Algorithm: stint.Algorithm(d.small()), Leased: d.small() == 1, Name: d.text(),
		})
	}
	return c
}

func (d *chargeDecoder) generation() uint32 {
	if len(d.rest) < 4 {
		d.rest, d.failed = nil, true
		return 0
	}
	g := binary.LittleEndian.Uint32(d.rest)
	d.rest = d.rest[4:]
	return g
}

func (d *chargeDecoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.rest, d.failed = nil, true
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count reads how many of something follow.
func (d *chargeDecoder) count(most int) int {
	n := d.number()
	if n > uint64(most) {
		d.rest, d.failed = nil, true
		return 0
	}
	return int(n)
}

// small reads a number that fits into a byte.
func (d *chargeDecoder) small() uint8 { return uint8(d.count(math.MaxUint8)) }

func (d *chargeDecoder) text() string {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.rest, d.failed = nil, true
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}
