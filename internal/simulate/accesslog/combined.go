package accesslog

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/clientip"
)

const (
	noTime       = reason("no time in brackets after client, identity and user")
	brokenTime   = reason("the time is not like 10/Oct/2000:13:55:36 -0700")
	brokenClient = reason("the client is not an IP address: log addresses, not names")
	unquoted     = reason("no request line in quotes after the time")
	noStatus     = reason("no status and size after the request line")
	noAgent      = reason("no referrer and user agent in quotes after the size, as in the combined format")
)

// lineFormat is the format of Apache and nginx:
//
//	[HOST[:PORT] ]CLIENT IDENTITY USER [TIME] "REQUEST" STATUS SIZE
//	    [ "REFERRER" "USER AGENT"[ "FORWARDED FOR"]]
//
// Anything after that is ignored.
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
	if rest, ok = r.readStatus(rest); !ok {
		return noStatus
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
	// The format "main" of nginx's default configuration has one more field.
	if rest != "" {
		forwarded, _, _ := r.cutQuoted(rest, escapes)
		if first, _, _ := strings.Cut(forwarded, ","); clientip.ParsePeer(first).IsValid() {
			r.addHeader("X-Forwarded-For", forwarded)
		}
	}
	return nil
}

// cutTime returns the text before the time, the time, and the text after it.
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

// readHead reads client, identity and user, which a host may precede. A user may contain spaces.
func (r *Record) readHead(head string, escapes bool) error {
	first, rest, _ := strings.Cut(head, " ")
	second, others, _ := strings.Cut(rest, " ")
	if others == "" {
		return noTime
	}
	client, known := readClient(first)
	user := others
	// If three or more words follow the first one, it may be a host. It is a host if it cannot be
	// the client, or if the second word can: identities are not addresses.
	if _, further, _ := strings.Cut(others, " "); further != "" {
		if next, isClient := readClient(second); !known || next.IsValid() {
			client, known, user = next, isClient, further
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

// readClient reads the address of a client, or a placeholder for an unknown one.
func readClient(s string) (client netip.Addr, ok bool) {
	if s == "-" || s == "unix:" { // nginx writes this for clients on a Unix socket
		return netip.Addr{}, true
	}
	if client, ok = parseIPv4(s); ok {
		return client, true
	}
	client = clientip.ParsePeer(s)
	return client, client.IsValid()
}

// parseIPv4 reads an IPv4 address, like [netip.ParseAddr]. Most clients have one, and with
// [clientip.ParsePeer] alone it takes about a tenth longer to read a line.
func parseIPv4(s string) (addr netip.Addr, ok bool) {
	var octets [4]byte
	octet, digits, dots := 0, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.' && digits > 0 && dots < 3:
			octets[dots] = byte(octet)
			octet, digits = 0, 0
			dots++
		case c-'0' <= 9 && (digits == 0 || octet > 0): // no leading zeros
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

// readStatus reads status and size. It returns the text after them.
func (r *Record) readStatus(s string) (rest string, ok bool) {
	if s, ok = strings.CutPrefix(s, " "); !ok {
		return "", false
	}
	status, s, _ := strings.Cut(s, " ")
	size, rest := s, ""
	if end := strings.IndexByte(s, ' '); end >= 0 {
		size, rest = s[:end], s[end:]
	}
	n, isNumber := readNumber(status)
	if !isNumber || n > 999 {
		return "", false
	}
	r.Status = int(n)
	r.Bytes, ok = readNumber(size)
	return rest, ok
}

// readNumber reads a number that is not negative, or "-" for none.
func readNumber(s string) (n int64, ok bool) {
	if s == "-" {
		return 0, true
	}
	u, err := strconv.ParseUint(s, 10, 63)
	return int64(u), err == nil
}

// cutQuoted returns the value in quotes at the beginning of s, after a space, and the text after
// it. The value is unescaped if the line has escapes.
func (r *Record) cutQuoted(s string, escapes bool) (value, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, ` "`)
	if !ok {
		return "", "", false
	}
	end := strings.IndexByte(s, '"')
	if escapes {
		end = closingQuote(s)
	}
	if end < 0 {
		return "", "", false
	}
	value, rest = s[:end], s[end+1:]
	if escapes {
		value = r.unescape(value)
	}
	return value, rest, true
}

// closingQuote returns the index of the first quote that is not escaped, or -1.
func closingQuote(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// unescape decodes the escapes of Apache and nginx: \" \\ \b \n \r \t \v and \xHH. Any other
// backslash stands for itself. strconv.Unquote does not do this: it rejects what these servers may
// write.
func (r *Record) unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	start := len(r.memory)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' || i+1 == len(s) {
			r.memory = append(r.memory, c)
			continue
		}
		switch next := s[i+1]; {
		case next == '"' || next == '\\':
			c = next
			i++
		case strings.IndexByte("bnrtv", next) >= 0:
			c = "\b\n\r\t\v"[strings.IndexByte("bnrtv", next)]
			i++
		case next == 'x' && i+3 < len(s):
			if hex, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				c = byte(hex)
				i += 3
			}
		}
		r.memory = append(r.memory, c)
	}
	return r.since(start)
}
