package accesslog

import (
	"net/netip"
	"strings"

	"github.com/stint-limiter/stint/internal/clientip"
)

const (
	noTime       = reason("no time in brackets after client, identity and user")
	brokenTime   = reason("the time is not one such as 10/Oct/2000:13:55:36 -0700")
	brokenClient = reason("the client is no IP address: log addresses, not names")
	unquoted     = reason("no request line in quotes after the time")
	brokenAnswer = reason("no status and size after the request line")
	noAgent      = reason("no referrer and user agent in quotes after the size, as the combined format has them")
)

// lineFormat is Apache's and nginx's:
//
//	[HOST[:PORT] ]CLIENT IDENTITY USER [TIME] "REQUEST" STATUS SIZE[ "REFERRER" "USER AGENT"[ "FORWARDED FOR"]]
//
// What follows is not looked at.
type lineFormat struct{ combined bool }

func (f lineFormat) String() string {
	if f.combined {
		return "combined"
	}
	return "common"
}

// Parse implements [Format].
func (f lineFormat) Parse(line []byte, r *Record) error {
	r.reset()
	text := r.keep(line)
	head, at, rest, err := cutTime(text)
	if err != nil {
		return err
	}
	r.At = at
	escapes := strings.IndexByte(text, '\\') >= 0
	if err := r.readHead(head, escapes); err != nil {
		return err
	}
	request, rest, ok := r.cutQuoted(rest, escapes)
	if !ok {
		return unquoted
	}
	if err := r.readRequest(request); err != nil {
		return err
	}
	if rest, ok = r.readAnswer(rest); !ok {
		return brokenAnswer
	}
	if !f.combined {
		return nil
	}
	referrer, rest, ok := r.cutQuoted(rest, escapes)
	if !ok {
		return noAgent
	}
	agent, rest, ok := r.cutQuoted(rest, escapes)
	if !ok {
		return noAgent
	}
	r.addHeader("Referer", referrer)
	r.addHeader("User-Agent", agent)
	// The format called "main" in nginx's own configuration.
	if rest != "" {
		forwarded, _, _ := r.cutQuoted(rest, escapes)
		if first, _, _ := strings.Cut(forwarded, ","); clientip.ParsePeer(first).IsValid() {
			r.addHeader("X-Forwarded-For", forwarded)
		}
	}
	return nil
}

// cutTime returns what stands before the time, the time, and what stands after it.
func cutTime(text string) (head string, at int64, rest string, err error) {
	from := 0
	if strings.HasPrefix(text, "[") { // a host that is an IPv6 address
		from = 1
	}
	open := strings.IndexByte(text[from:], '[') + from
	if open <= from || text[open-1] != ' ' {
		return "", 0, "", noTime
	}
	end := strings.IndexByte(text[open:], ']') + open
	if end < open {
		return "", 0, "", noTime
	}
	at, ok := parseTime(text[open+1 : end])
	if !ok {
		return "", 0, "", brokenTime
	}
	return text[:open-1], at, text[end+1:], nil
}

// readHead reads client, identity and user, with or without a host before them. A user may have spaces in it.
func (r *Record) readHead(head string, escapes bool) error {
	first, rest := cutWord(head)
	second, others := cutWord(rest)
	if others == "" {
		return noTime
	}
	client, known := readClient(first)
	user := others
	// With three words or more after the first it may be a host, and is if it cannot be the client or the next word
	// can: identities are no addresses.
	if _, further := cutWord(others); further != "" {
		if next, isAddr := readClient(second); !known || next.IsValid() {
			client, known, user = next, isAddr, further
			if first != "-" {
				r.Host = first
			}
		}
	}
	if !known {
		return brokenClient
	}
	r.Client = client
	if user != "-" && user != `""` {
		r.User = user
	}
	if escapes {
		r.User = r.unescape(r.User)
	}
	return nil
}

// readClient reads the address of a client. That none is known can be said too.
func readClient(s string) (client netip.Addr, ok bool) {
	if s == "-" || s == "unix:" { // nginx's name for whoever is on a Unix socket
		return netip.Addr{}, true
	}
	if client, ok = parseIPv4(s); ok {
		return client, true
	}
	client = clientip.ParsePeer(s)
	return client, client.IsValid()
}

// parseIPv4 reads what most clients are, as [clientip.ParsePeer] does in more time.
func parseIPv4(s string) (addr netip.Addr, ok bool) {
	var octets [4]byte
	octet, digits, dots := 0, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.' && digits > 0 && dots < 3:
			octets[dots] = byte(octet)
			octet, digits = 0, 0
			dots++
		case c-'0' <= 9 && (digits == 0 || octet > 0): // no zero before another digit
			octet = octet*10 + int(c-'0')
			if digits++; octet > 255 {
				return netip.Addr{}, false
			}
		default:
			return netip.Addr{}, false
		}
	}
	octets[3] = byte(octet)
	return netip.AddrFrom4(octets), dots == 3 && digits > 0
}

// readAnswer reads status and size, and returns what follows.
func (r *Record) readAnswer(s string) (rest string, ok bool) {
	if s, ok = strings.CutPrefix(s, " "); !ok {
		return "", false
	}
	status, s := cutWord(s)
	size, rest := s, ""
	if end := strings.IndexByte(s, ' '); end >= 0 {
		size, rest = s[:end], s[end:]
	}
	n, isNumber := readCount(status)
	if !isNumber || len(status) > len("200") {
		return "", false
	}
	r.Status = int(n)
	r.Bytes, ok = readCount(size)
	return rest, ok
}

// cutWord returns what stands before the first space and what after it.
func cutWord(s string) (word, rest string) {
	if i := strings.IndexByte(s, ' '); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// readCount reads a number, or the "-" that stands for none.
func readCount(s string) (n int64, ok bool) {
	if s == "-" {
		return 0, true
	}
	if s == "" || len(s) > 18 {
		return 0, false
	}
	for i := range len(s) {
		digit := s[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = n*10 + int64(digit)
	}
	return n, true
}
