package clientip

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/stint-limiter/stint"
)

// subject returns the part of a canonical address that identifies a subject, and the number of
// leading bits of the address that determine it. By default, it is all of an IPv4 address, and the
// /64 of an IPv6 address, because one host can have all addresses in a /64. An IPv6 address that
// contains the IPv4 address of its host has the subject of that IPv4 address. The subject of an
// unknown address is the zero Prefix.
func (r *Resolver) subject(a netip.Addr) (p netip.Prefix, decided int) {
	v4, decided := carried(a)
	switch {
	case decided > 0:
		p, _ = v4.Prefix(r.ipv4)
		return p, decided
	case a.Is4():
		decided = r.ipv4
	default:
		decided = r.ipv6
	}
	p, _ = a.Prefix(decided) // fails only for the zero Addr
	return p, decided
}

// IsOneSubject reports whether all addresses of a network have the same subject.
func (r *Resolver) IsOneSubject(network netip.Prefix) bool {
	a, bits := network.Addr(), network.Bits()
	if a.Is4In6() {
		a, bits = a.Unmap(), bits-96
	}
	p, decided := r.subject(a)
	return p.IsValid() && bits >= decided
}

// AppendSubject appends the subject of an address as text, for keys: an address such as 192.0.2.1
// if the subject is a whole address, and a prefix such as 2001:db8:1:2::/64 otherwise. It appends
// nothing for an unknown address.
func (r *Resolver) AppendSubject(b []byte, a netip.Addr) []byte {
	if a.Is4() && r.ipv4 == a.BitLen() {
		return a.AppendTo(b) // the most common case, which takes 24 ns instead of 40
	}
	p, _ := r.subject(canonical(a))
	switch {
	case !p.IsValid():
		return b
	case p.IsSingleIP():
		return p.Addr().AppendTo(b)
	default:
		return p.AppendTo(b)
	}
}

// carried returns the IPv4 address of the host behind an IPv6 address that contains one. It also
// returns how many leading bits of the IPv6 address determine the IPv4 address, or 0 if there is no
// IPv4 address. The addresses of these networks contain one:
//
//   - 64:ff9b::/96 and 64:ff9b:1::/48, to which a translator (NAT64, RFC 6052 and 8215) maps the
//     IPv4 Internet. If it were counted by /64, which is the default for IPv6, all of the IPv4
//     Internet would be one subject. The IPv4 address is in the last 32 bits, as in any prefix of
//     96 bits.
//   - 2002::/16, for 6to4 (RFC 3056): a host has a whole /48, which is 65,536 /64s. The IPv4
//     address is in the 32 bits after the prefix.
//   - 2001::/32, for Teredo (RFC 4380): the first 64 bits identify a server. Many hosts share a
//     server, and a host can choose its server. The host's IPv4 address is in the last 32 bits,
//     inverted.
//
// None of these networks lets a client choose the IPv4 address: replies are sent to that address,
// so a client that does not have it cannot complete a connection. Private addresses are treated
// like any other. Addresses that no host has, such as 127.0.0.1, need no check, because a client
// cannot receive a reply there. The address under which a client is counted gives it no rights:
// whether it is a trusted proxy, and whether it belongs to a network, is decided by the IPv6
// address itself.
func carried(a netip.Addr) (v4 netip.Addr, bits int) {
	if !a.Is6() {
		return netip.Addr{}, 0
	}
	b := a.As16()
	switch {
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6])), 48
	case [4]byte(b[:4]) == [4]byte{0x20, 0x01}:
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), 128
	case [12]byte(b[:12]) == [12]byte{0, 0x64, 0xff, 0x9b}, [6]byte(b[:6]) == [6]byte{0, 0x64, 0xff, 0x9b, 0, 1}:
		return netip.AddrFrom4([4]byte(b[12:])), 128
	}
	return netip.Addr{}, 0
}

// Key returns a function that returns the key of a request's client, such as "ip:203.0.113.9", or
// "" if the client is unknown. Key parses the trusted proxies with [ParsePrefix], and reports all
// that are invalid in one [*stint.InvalidError].
func Key(trusted []string) (func(peer netip.Addr, h Header) string, error) {
	var c Config
	var errs []error
	for i, entry := range trusted {
		prefixes, unix, err := ParsePrefix(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("entry %d %w", i+1, err))
		}
		c.Trusted, c.TrustUnix = append(c.Trusted, prefixes...), c.TrustUnix || unix
	}
	if errs != nil {
		return nil, &stint.InvalidError{Err: errors.Join(errs...)}
	}
	r, _ := New(c) // cannot fail, because c has no Header
	return func(peer netip.Addr, h Header) string {
		client := r.Client(peer, h)
		if !client.IsValid() {
			return ""
		}
		var room [64]byte
		return string(r.AppendSubject(append(room[:0], "ip:"...), client))
	}, nil
}
