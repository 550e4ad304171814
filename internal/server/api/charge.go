package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/driver"
)

// charged is a charge that also records which claims count costs: bit i of priced is set if claim i
// does.
type charged struct {
	stint.Charge
	priced uint16
}

type seal struct{ key [sha256.Size]byte }

// newSeal returns a seal with a key that is derived from the given key. If other code also signs
// with the given key, its signatures are not valid for charges.
func newSeal(key []byte) seal {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("stint charge"))
	var s seal
	mac.Sum(s.key[:0])
	return s
}

// The text of a charge is the URL-safe base64 encoding of a version, the fields of the charge, and
// a signature of both. Numbers are varints, except generations, which are random and take four
// bytes. Strings are preceded by their length. The text is not encrypted, and it contains the
// subject.
const (
	chargeVersion = 4
	signatureSize = 16
	maxCharge     = 63 << 10 // maximum length of the text, in bytes
)

var (
	errNotCharge  = errors.New(`is not a charge; want the "charge" of an answer, unchanged`)
	errNotSigned  = errors.New("was not made by a process that shares this store, or has been changed")
	errNewVersion = errors.New("is from another version of the server")
)

// textOf returns the text of a charge, or "" if nothing was charged. If the charge is in the store,
// the text does not say which units are leased: a lease belongs to one process, but any process may
// receive the text. So amendments of leased units go to the store.
func (k *keys) textOf(ctx context.Context, c *charged) string {
	if c.IsZero() {
		return ""
	}
	passed := *c
	if !passed.Data().Fallback {
		passed.Data().Leased = 0
	}
	w := codec{b: []byte{chargeVersion}}
	w.charge(&passed)
	signature := k.signer(ctx, !passed.Data().Fallback).sign(w.b)
	return base64.RawURLEncoding.EncodeToString(append(w.b, signature...))
}

// open checks the signature in the text of a charge, and returns the charge. An error other than
// errKeysAway is a message for the caller.
func (k *keys) open(ctx context.Context, text string) (charged, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= signatureSize || strings.ContainsAny(text, "\r\n") { // the decoder ignores line breaks
		return charged{}, errNotCharge
	}
	b, signature := b[:len(b)-signatureSize], b[len(b)-signatureSize:]
	switch good, err := k.signed(ctx, b, signature); {
	case err != nil:
		return charged{}, err
	case !good:
		return charged{}, errNotSigned
	case b[0] != chargeVersion:
		return charged{}, errNewVersion
	}
	var c charged
	r := codec{b: b[1:], reads: true}
	r.charge(&c)
	if r.failed || len(r.b) > 0 || (stint.Amendment{Kind: stint.AmendSettle}).Validate(&c.Charge) != nil {
		return charged{}, errNotCharge
	}
	return c, nil
}

func (s *seal) sign(b []byte) []byte {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write(b)
	return mac.Sum(nil)[:signatureSize]
}

// codec writes or reads a charge. One type does both, so that the order of the fields is defined
// only once. Writing does not modify the charge, because other goroutines may read it at the same
// time. After a failed read, all further values are zero.
type codec struct {
	b      []byte // the bytes written so far, or the bytes left to read
	reads  bool
	failed bool
}

func (x *codec) fail() { x.b, x.failed = nil, true }

func (x *codec) charge(c *charged) {
	data := c.Data()
	number(x, &data.ID, math.MaxUint64)
	number(x, &data.At, math.MaxUint64)
	x.generation(&data.Generation)
	if x.boolean(&data.Fallback); data.Fallback { // textOf removes the leases of other charges
		number(x, &data.Leased, math.MaxUint16)
		number(x, &data.Leaser, math.MaxUint16)
	}
	number(x, &c.priced, math.MaxUint16)
	x.microseconds(&data.Hold)
	if x.text(&data.RequestID); data.RequestID != "" {
		x.microseconds(&data.IDLife)
	}
	claims := c.Claims()
	if list(x, &claims, stint.MaxClaims, x.claim); x.reads {
		c.SetClaims(claims)
	}
	var others driver.OtherStates
	if data.Others != nil {
		others = *data.Others
	}
	list(x, &others.At, stint.MaxClaims, func(at *int64) { number(x, at, math.MaxUint64) })
	list(x, &others.Generations, stint.MaxClaims*stint.MaxLimits, x.generation)
	if x.reads && (others.At != nil || others.Generations != nil) {
		data.Others = &driver.OtherStates{At: others.At, Generations: others.Generations}
	}
}

func (x *codec) claim(c *stint.Claim) {
	x.text(&c.Subject)
	x.text(&c.Scope)
	number(x, &c.Cost, math.MaxUint64)
	x.boolean(&c.Shared)
	list(x, &c.Limits, stint.MaxLimits, func(l *stint.Limit) {
		number(x, &l.Max, math.MaxUint64)
		x.microseconds(&l.Window)
		number(x, &l.Burst, math.MaxUint64)
		number(x, &l.Algorithm, math.MaxUint8)
		x.boolean(&l.Leased)
		x.boolean(&l.HoldThrough)
		x.boolean(&l.ChargeExpired)
		number(x, &l.Start, math.MaxInt8)
		x.text(&l.Zone)
		x.text(&l.Name)
		x.cost(&c.Costs, l.Name)
	})
}

// cost writes or reads the cost of the limit with the given name. The encoded number is the cost
// plus one, or 0 if the limit has no cost of its own.
func (x *codec) cost(of *stint.Costs, name string) {
	n := int64(0)
	if cost, ok := (*of)[name]; ok {
		n = cost + 1
	}
	if number(x, &n, math.MaxInt64); x.reads && n > 0 {
		if *of == nil {
			*of = stint.Costs{}
		}
		(*of)[name] = n - 1
	}
}

func number[T ~int | ~int8 | ~int64 | ~uint8 | ~uint16 | ~uint64](x *codec, n *T, most uint64) {
	if !x.reads {
		x.b = binary.AppendUvarint(x.b, uint64(*n))
		return
	}
	v, size := binary.Uvarint(x.b)
	if size <= 0 || v > most {
		x.fail()
		return
	}
	*n, x.b = T(v), x.b[size:]
}

func (x *codec) microseconds(d *time.Duration) {
	n := d.Microseconds()
	if number(x, &n, math.MaxUint64); x.reads {
		*d = time.Duration(n) * time.Microsecond
	}
}

func (x *codec) boolean(v *bool) {
	n := 0
	if *v {
		n = 1
	}
	if number(x, &n, math.MaxUint8); x.reads {
		*v = n == 1
	}
}

func (x *codec) generation(g *uint32) {
	switch {
	case !x.reads:
		x.b = binary.LittleEndian.AppendUint32(x.b, *g)
	case len(x.b) < 4:
		x.fail()
	default:
		*g, x.b = binary.LittleEndian.Uint32(x.b), x.b[4:]
	}
}

func (x *codec) text(s *string) {
	n := len(*s)
	number(x, &n, uint64(max(len(x.b), n)))
	switch {
	case !x.reads:
		x.b = append(x.b, *s...)
	case n > len(x.b):
		x.fail()
	default:
		*s, x.b = string(x.b[:n]), x.b[n:]
	}
}

// list writes or reads a list. The parameter most is the maximum number of items.
func list[T any](x *codec, items *[]T, most int, item func(*T)) {
	n := len(*items)
	number(x, &n, uint64(most))
	if x.reads && n > 0 {
		*items = make([]T, n)
	}
	for i := range *items {
		item(&(*items)[i])
	}
}
