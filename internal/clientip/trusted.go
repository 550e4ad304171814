package clientip

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// ParsePrefix parses a prefix such as 10.0.0.0/8, an address, or one of these words:
//
//   - loopback: 127.0.0.0/8 and ::1
//   - private: the networks of RFC 1918 and RFC 4193, and link-local addresses. It excludes
//     100.64.0.0/10, where unrelated clients share a carrier's network
//   - unix: peers on a Unix socket, which have no prefix
func ParsePrefix(entry string) (prefixes []netip.Prefix, unix bool, err error) {
	switch entry {
	case "loopback":
		return networks("127.0.0.0/8", "::1/128"), false, nil
	case "private":
		return networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
			"fc00::/7", "fe80::/10"), false, nil
	case "unix":
		return nil, true, nil
	}
	p, err := parsePrefix(entry)
	if err != nil {
		return nil, false, err
	}
	return []netip.Prefix{p}, false, nil
}

func networks(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return netip.Prefix{}, notAPrefix(s)
		}
		return canonicalPrefix(p)
	}
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return netip.Prefix{}, notAPrefix(s)
	case a.Zone() != "":
		return netip.Prefix{}, fmt.Errorf("is %q; want it without a zone: %v", s, canonical(a))
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), nil
}

func notAPrefix(s string) error {
	return fmt.Errorf("is %q; want a prefix such as 10.0.0.0/8, an address, or one of loopback, private and unix", s)
}

// canonicalPrefix returns the canonical form of a prefix, with IPv4 unmapped. It rejects a prefix
// with bits set beyond its length, because such a prefix is larger than it seems: 10.1.2.3/8 would
// trust sixteen million addresses.
func canonicalPrefix(p netip.Prefix) (netip.Prefix, error) {
	shown := p
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	if p != p.Masked() {
		a := p.Addr()
		return netip.Prefix{}, fmt.Errorf("is %v, which has bits set beyond its length; want %v for the network, or %v/%d for the address",
			shown, p.Masked(), a, a.BitLen())
	}
	return p, nil
}

// prefixSet is a sorted list of prefixes that do not overlap.
type prefixSet []netip.Prefix

// newPrefixSet returns a set of canonical prefixes. It leaves out each prefix that lies within
// another prefix in the list. In sorted order, such a prefix follows the prefix that contains it,
// so each prefix is compared only with the last one in the set.
func newPrefixSet(prefixes []netip.Prefix) prefixSet {
	var set prefixSet
	for _, p := range slices.SortedFunc(slices.Values(prefixes), netip.Prefix.Compare) {
		if n := len(set); n == 0 || !set[n-1].Overlaps(p) {
			set = append(set, p)
		}
	}
	return set
}

// contains reports whether the set contains a canonical address. Only the last prefix that begins
// at or before the address can contain it.
func (s prefixSet) contains(a netip.Addr) bool {
	after := sort.Search(len(s), func(i int) bool { return a.Less(s[i].Addr()) })
	return after > 0 && s[after-1].Contains(a)
}
