package tokens

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// maxText is the maximum length in bytes of a number or string that a Scanner reports.
const maxText = 256

// Scanner finds the values that JSON pointers refer to, in text that arrives in pieces of any size.
// It reports each value as soon as the value is complete. A value is a number, a literal, a string
// (as written, with its quotes), or the bracket that opens an object or array. Values longer than
// 256 bytes are not reported.
//
// The text may consist of several documents, one after the other. If a document is an array, each
// of its elements is also a document. After a syntax error, the text is ignored until the next
// Reset. Text that no pointer leads to is not checked.
//
// The size of a Scanner's memory does not depend on the text: a Scanner counts the levels of
// nesting but does not store them.
type Scanner struct {
	pointers *Pointers
	found    func(leaf int, value []byte, at int64)

	state state
	at    int64 // number of bytes before the current piece
	depth int   // number of open objects and arrays
	open  []frame
	leaf  int   // index of the pointer to the value being read, or -1
	start int64 // offset of the value
	text  []byte
	long  bool // whether the key or value is too long, so that text is incomplete
}

// frame is an open object or array that pointers lead into. Objects and arrays that no pointer
// leads into have no frame. The scanner skips them.
type frame struct {
	node  *node
	array bool
	top   bool  // whether it is an array of documents
	next  *node // the member being read; nil if no pointer leads to it
	index int   // index of the current element of an array
}

type state uint8

const (
	atValue      state = iota // a value follows
	atKey                     // a key or the end of the object follows
	inKey                     // inside a key
	inKeyEscape               // after a backslash in a key
	atColon                   // a colon follows
	afterValue                // a comma or the end of the object or array follows
	inText                    // inside a reported string
	inTextEscape              // after a backslash in a reported string
	inWord                    // in a number or literal
	inOther                   // in a skipped object or array
	inString                  // inside a string that is not reported
	inStringEscape
	lost // after a syntax error
)

// NewScanner returns a scanner that calls found for each value, with the index of the pointer, the
// value and its offset. The value is valid until found returns.
func NewScanner(p *Pointers, found func(leaf int, value []byte, at int64)) *Scanner {
	return &Scanner{pointers: p, found: found, open: make([]frame, 0, p.depth+1)}
}

// Reset prepares the scanner for new text.
func (s *Scanner) Reset() {
	s.state, s.at, s.depth, s.open, s.text = atValue, 0, 0, s.open[:0], s.text[:0]
}

// Write processes the next piece of the text. It never fails.
func (s *Scanner) Write(p []byte) (int, error) {
	for i := 0; i < len(p); {
		switch s.state {
		case inOther:
			i = s.skip(p, i)
		case inString:
			i = s.skipString(p, i)
		case lost:
			i = len(p)
		default:
			i = s.step(p, i)
		}
	}
	s.at += int64(len(p))
	return len(p), nil
}

// step processes text that is not skipped, starting at p[i]. It returns the index of the first byte
// that it has not processed.
func (s *Scanner) step(p []byte, i int) int {
	switch c := p[i]; s.state {
	case inStringEscape:
		s.state = inString
	case inKey:
		return s.collect(p, i, s.pointers.maxKey)
	case inText:
		return s.collect(p, i, maxText)
	case inKeyEscape:
		s.keep(p[i:i+1], s.pointers.maxKey)
		s.state = inKey
	case inTextEscape:
		s.keep(p[i:i+1], maxText)
		s.state = inText
	case inWord:
		return s.word(p, i)
	default:
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			s.mark(c, s.at+int64(i))
		}
	}
	return i + 1
}

// word scans the part of a number or a literal that starts at p[i], up to the byte that ends the
// word or to the end of p. It returns the index where it stopped.
func (s *Scanner) word(p []byte, i int) int {
	end := i
	for end < len(p) && !endsWord[p[end]] {
		end++
	}
	if s.leaf >= 0 {
		s.keep(p[i:end], maxText)
	}
	if end < len(p) {
		s.report()
		s.ended()
	}
	return end
}

// endsWord is true for the bytes that end a number or a literal.
var endsWord = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, ',': true, ']': true, '}': true}

// mark processes c, which is a punctuation mark or the first byte of a key or value. The argument
// at is its offset.
func (s *Scanner) mark(c byte, at int64) {
	switch s.state {
	case atKey:
		switch c {
		case '"':
			s.text, s.long, s.state = s.text[:0], false, inKey
		case '}':
			s.close(c)
		default:
			s.state = lost
		}
	case atColon:
		if s.state = atValue; c != ':' {
			s.state = lost
		}
	case atValue:
		if c == ']' && len(s.open) > 0 && s.inner().array && s.inner().index == 0 {
			s.close(c)
			return
		}
		s.begin(c, at)
	case afterValue:
		if c != ',' {
			s.close(c)
			return
		}
		f := s.inner()
		if s.state = atKey; f.array {
			f.index++
			f.next = f.element()
			s.state = atValue
		}
	}
}

func (s *Scanner) inner() *frame { return &s.open[len(s.open)-1] }

func (f *frame) element() *node {
	if f.top {
		return f.node
	}
	return f.node.children[strconv.Itoa(f.index)]
}

// begin processes the first byte of a value.
func (s *Scanner) begin(c byte, at int64) {
	n := s.pointers.root
	top := len(s.open) == 0
	if !top {
		n = s.inner().next
	}
	s.leaf, s.start = -1, at
	if n != nil {
		s.leaf = n.leaf
	}
	s.text, s.long = s.text[:0], false
	switch c {
	case '{', '[':
		s.depth++
		if s.text = append(s.text, c); s.leaf >= 0 && !(top && c == '[') {
			s.report()
		}
		f := frame{node: n, array: c == '[', top: top && c == '['}
		if n == nil || len(n.children) == 0 && !f.top || len(s.open) == cap(s.open) {
			s.state = inOther
			return
		}
		if s.state = atKey; f.array {
			f.next, s.state = f.element(), atValue
		}
		s.open = append(s.open, f)
	case '"':
		if s.state = inString; s.leaf >= 0 {
			s.text, s.state = append(s.text, c), inText
		}
	default:
		if c != '-' && (c < '0' || c > '9') && c != 't' && c != 'f' && c != 'n' {
			s.state = lost
			return
		}
		s.text, s.state = append(s.text, c), inWord
	}
}

// close processes the end of the innermost object or array. On a syntax error, it changes to the
// state lost.
func (s *Scanner) close(c byte) {
	if len(s.open) == 0 || s.inner().array != (c == ']') || c != ']' && c != '}' {
		s.state = lost
		return
	}
	s.open, s.depth = s.open[:len(s.open)-1], s.depth-1
	s.ended()
}

func (s *Scanner) ended() {
	switch {
	case s.depth > len(s.open):
		s.state = inOther
	case s.depth == 0:
		s.state = atValue
	default:
		s.state = afterValue
	}
}

// report reports a value if a pointer leads to the value and it is not too long.
func (s *Scanner) report() {
	if s.leaf >= 0 && !s.long {
		s.found(s.leaf, s.text, s.start)
	}
	s.leaf = -1
}

// collect scans a key or a reported string, starting at p[i]. It stops after the closing quote or
// the backslash of an escape, or else at the end of p or after 2*maxText bytes. The argument most
// is the maximum length of s.text. collect returns the index of the first byte that it has not
// processed.
func (s *Scanner) collect(p []byte, i, most int) int {
	piece := p[i:min(i+2*maxText, len(p))] // limited, so that many escapes do not cause many scans of all of p
	end := bytes.IndexByte(piece, '"')
	if end >= 0 {
		piece = piece[:end]
	}
	if escape := bytes.IndexByte(piece, '\\'); escape >= 0 {
		s.keep(piece[:escape+1], most)
		s.state++ // the state after a backslash
		return i + escape + 1
	}
	if i += len(piece); end < 0 {
		s.keep(piece, most)
		return i
	}
	if s.state == inText {
		s.keep(p[i-end:i+1], most)
		s.report()
		s.ended()
		return i + 1
	}
	f := s.inner()
	s.state = atColon
	if len(s.text) == 0 && !s.long { // the whole key is in this piece, as usual
		f.next = s.pointers.child(f.node, piece)
		return i + 1
	}
	s.keep(piece, most)
	f.next = s.member()
	return i + 1
}

// keep appends a piece of a key or value to s.text. The argument most is the maximum length of
// s.text; if it would be exceeded, keep sets s.long instead.
func (s *Scanner) keep(piece []byte, most int) {
	if len(s.text)+len(piece) > most {
		s.long = true
		return
	}
	s.text = append(s.text, piece...)
}

// member returns the node for the key that was read, or nil if no pointer leads there.
func (s *Scanner) member() *node {
	if s.long {
		return nil
	}
	if bytes.IndexByte(s.text, '\\') < 0 {
		return s.pointers.child(s.inner().node, s.text)
	}
	var key string
	if json.Unmarshal([]byte(`"`+string(s.text)+`"`), &key) != nil {
		return nil
	}
	return s.pointers.child(s.inner().node, []byte(key))
}

// skip scans the rest of a skipped object or array, starting at p[i]. It stops inside the next
// string, after the closing bracket or at the end of p, and returns the index where it stopped.
func (s *Scanner) skip(p []byte, i int) int {
	for ; i < len(p); i++ {
		switch p[i] {
		case '"':
			s.state = inString
			return i + 1
		case '{', '[':
			s.depth++
		case '}', ']':
			if s.depth--; s.depth == len(s.open) {
				s.ended()
				return i + 1
			}
		}
	}
	return i
}

// skipString scans the rest of a string that is not reported, starting at p[i], and returns the
// index where it stopped. It scans each byte at most twice, even if the string has many escapes.
func (s *Scanner) skipString(p []byte, i int) int {
	for {
		end := bytes.IndexByte(p[i:], '"') + i
		if end < i {
			end = len(p)
		}
		for i < end {
			escape := bytes.IndexByte(p[i:end], '\\')
			if escape < 0 {
				i = end
				break
			}
			i += escape + 2
		}
		switch {
		case i > len(p):
			s.state = inStringEscape
			return len(p)
		case i == len(p) && end == len(p):
			return i
		case i == end:
			s.ended()
			return end + 1
		}
	}
}
