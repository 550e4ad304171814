package accesslog

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/clientip"
	"github.com/stint-limiter/stint/internal/syntax"
)

const (
	noTime       = reason("no time in brackets after client, identity and user")
	brokenTime   = reason("the time is not in the form 10/Oct/2000:13:55:36 -0700")
	brokenClient = reason("the client is neither an IP address nor a host name")
	unquoted     = reason("no request line in quotes after the time")
	noStatus     = reason("no status and size after the request line")
)

// lineFormat is the format of Apache and nginx. The referrer and the user agent may be missing:
//
//	[HOST[:PORT] ]CLIENT IDENTITY USER [TIME] "REQUEST" STATUS SIZE
//	    [ "REFERRER" "USER AGENT"[ "FORWARDED FOR"]]
//
// Text after these values is ignored.
type lineFormat struct{}

// Parse implements [Format].
func (lineFormat) Parse(line []byte, r *Record) error {
	r.reset()
	text := r.keep(line)
	head, at, rest, err := cutTime(text)
	if err != nil {
		return err
	}
	r.At = at
	q := quotingOf(text)
	if err := r.readHead(head, q); err != nil {
		return err
	}
	request, rest, ok := r.cutQuoted(rest, q)
	if !ok {
		return unquoted
	}
	if err := r.readRequest(request); err != nil {
		return err
	}
	if rest, ok = r.readStatus(rest); !ok {
		return noStatus
	}
	referrer, rest, _ := r.cutQuoted(rest, q)
	agent, rest, ok := r.cutQuoted(rest, q)
	if !ok {
		return nil
	}
	r.addHeader("Referer", referrer)
	r.addHeader("User-Agent", agent)
	// nginx's default configuration has a format "main" with one more field.
	if rest != "" {
		forwarded, _, _ := r.cutQuoted(rest, q)
		if first, _, _ := strings.Cut(forwarded, ","); clientip.ParsePeer(first).IsValid() {
			r.addHeader("X-Forwarded-For", forwarded)
		}
	}
	return nil
}

// quoting is a way to write values in quotes.
type quoting int

const (
	escaped quoting = iota // as written by Apache and nginx: a backslash escapes a quote
	raw                    // as written by Traefik and Envoy: quotes and backslashes stand for themselves
)

// quotingOf returns how the values in a line are quoted. It recognizes Traefik lines, which are
// raw, by their end: the URL of a server and a duration, such as "http://10.0.0.1:80" 12ms.
func quotingOf(line string) quoting {
	if start, ok := strings.CutSuffix(line, "ms"); ok &&
		strings.HasSuffix(strings.TrimRight(start, "0123456789"), `" `) {
		return raw
	}
	return escaped
}

func cutTime(text string) (head string, at int64, rest string, err error) {
	from := 0
	if strings.HasPrefix(text, "[") { // the line begins with a host that is an IPv6 address
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

// readHead reads the client, identity and user from head, the part of a line before the time. A
// host may come before them. The user may contain spaces.
func (r *Record) readHead(head string, q quoting) error {
	first, rest, _ := strings.Cut(head, " ")
	second, others, _ := strings.Cut(rest, " ")
	if others == "" {
		return noTime
	}
	client, known := readClient(first)
	name, identity, user := first, second, others
	// If at least three words follow the first one, the first one may be a host. It is a host if
	// the second word is an address, because an identity never is. It is also a host if it is not
	// an address itself and the third word is "-", which stands for an unknown identity.
	if third, further, _ := strings.Cut(others, " "); further != "" {
		if next, isClient := readClient(second); next.IsValid() || !known && third == "-" {
			client, known = next, isClient
			name, identity, user = second, third, further
			if first != "-" {
				r.Host = first
			}
		}
	}
	// Accept a host name only if the identity is "-", as in the logs of most servers. Otherwise,
	// any word could be a host name.
	if r.Client = client; !known && (identity != "-" || !r.nameClient(name)) {
		return brokenClient
	}
	if user != "-" && user != `""` {
		r.User = user
	}
	if q == escaped {
		r.User = r.unescape(r.User)
	}
	return nil
}

// readClient reads the address of a client, or a placeholder for an unknown one.
func readClient(s string) (client netip.Addr, ok bool) {
	if s == "-" || s == "unix:" { // nginx writes "unix:" for clients on a Unix socket
		return netip.Addr{}, true
	}
	client = clientip.ParsePeer(s)
	return client, client.IsValid()
}

// nameClient derives an address from the host name of a client. The address is in fc00::/8, which
// no client uses. Each name gets its own /64, because policies count all addresses of a /64
// together.
func (r *Record) nameClient(name string) bool {
	if !syntax.IsName(name) || strings.Trim(name, "0123456789.-_") == "" {
		return false
	}
	hash := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		hash = (hash ^ uint64(name[i]|0x20)) * 1099511628211 // |0x20 ignores case
	}
	var address [16]byte
	binary.BigEndian.PutUint64(address[:], 0xfc<<56|hash>>8)
	r.ClientName, r.Client = name, netip.AddrFrom16(address)
	return true
}

// readStatus reads the status and the size at the beginning of s. It returns the text after them.
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

// readNumber parses a non-negative integer. It returns 0 for "-", which stands for an unknown
// number.
func readNumber(s string) (n int64, ok bool) {
	if s == "-" {
		return 0, true
	}
	u, err := strconv.ParseUint(s, 10, 63)
	return int64(u), err == nil
}

// cutQuoted cuts a space and a quoted value from the beginning of s. It returns the value without
// its quotes, and the rest of s.
func (r *Record) cutQuoted(s string, q quoting) (value, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, ` "`)
	if !ok {
		return "", "", false
	}
	end := closingQuote(s, q)
	if end < 0 {
		return "", "", false
	}
	value, rest = s[:end], s[end+1:]
	if q == escaped {
		value = r.unescape(value)
	}
	return value, rest, true
}

// closingQuote returns the index of the quote that ends a value, or -1 if there is none. If q is
// escaped, this is the first quote with an even number of backslashes, or none, before it. If q is
// raw, it is the first quote that is followed by the end of the line, a number or another value.
func closingQuote(s string, q quoting) int {
	for i := 0; ; i++ {
		next := strings.IndexByte(s[i:], '"')
		if next < 0 {
			return -1
		}
		i += next
		backslashes, after := i-len(strings.TrimRight(s[:i], `\`)), s[i+1:]
		if q == escaped && backslashes%2 == 0 || q == raw && (after == "" ||
			len(after) > 1 && after[0] == ' ' && (after[1] == '"' || after[1]-'0' <= 9)) {
			return i
		}
	}
}

// unescape decodes the escapes that Apache and nginx write: \" \\ \b \n \r \t \v and \xHH. It keeps
// any other backslash. strconv.Unquote cannot be used, because it rejects some values that these
// servers write.
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
