package accesslog

import "strings"

// cutQuoted returns what stands in the quotes that s begins with, after a space, and what follows them. If the line
// has backslashes at all, escapes are to be looked for.
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

// closingQuote returns the place of the first quote that no backslash stands before, or -1.
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

// unescape undoes what Apache and nginx write for bytes that would break a line: \" \\ \b \n \r \t \v and \xHH.
// Any other backslash stands for itself.
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
		case next == 'x' && i+3 < len(s) && hexDigit(s[i+2]) < 16 && hexDigit(s[i+3]) < 16:
			c = hexDigit(s[i+2])<<4 | hexDigit(s[i+3])
			i += 3
		}
		r.memory = append(r.memory, c)
	}
	return r.since(start)
}
