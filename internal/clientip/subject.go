package clientip

import "net/netip"

// Subject returns the part of an address that is limited as one: by default all
// of an IPv4 address, and the /64 of an IPv6 address, because one host can have
// all addresses of it. The Prefix of an unknown address is the zero Prefix.
func (r *Resolver) Subject(a netip.Addr) netip.Prefix {
	a = canonical(a)
	bits := r.ipv6
	if a.Is4() {
		bits = r.ipv4
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// AppendSubject appends the Subject of an address as text, for keys: an address if
// the subject is a whole one, such as 192.0.2.1, and a prefix otherwise, such as
// 2001:db8:1:2::/64. It appends nothing for an unknown address.
func (r *Resolver) AppendSubject(b []byte, a netip.Addr) []byte {
	p := r.Subject(a)
	switch {
	case !p.IsValid():
		return b
	case p.IsSingleIP():
		return p.Addr().AppendTo(b)
	default:
		return p.AppendTo(b)
	}
}
