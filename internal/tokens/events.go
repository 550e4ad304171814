package tokens

import "bytes"

// events splits a stream of server-sent events, which arrives in pieces of any size. It writes the
// data of the events to a Scanner, which it resets after each event, but it skips events that
// cannot contain token counts.
type events struct {
	json  *Scanner
	count int64 // number of events whose data is an object

	held    []byte // the beginning of an incomplete event, to be read with the next piece
	line    lineState
	field   int  // number of bytes of "data:" read in the line so far
	cr      bool // the last byte was a carriage return; a line feed after it ends the same line
	atEvent bool // at the beginning of an event
	object  int8 // 1 if the data of the event is an object, -1 if it is not, 0 if unknown
}

type lineState uint8

const (
	lineName  lineState = iota // in the name of a field
	lineData                   // in the value of a "data" field
	lineOther                  // in a line that is ignored
)

const dataField = "data:"

const (
	// maxSkip is the maximum number of bytes that skip examines in one call. Without it, skip might
	// examine the rest of a long piece again for each event.
	maxSkip = 4 << 10
	// maxHeld is the maximum length of events.held in bytes.
	maxHeld = 1 << 10
)

func (e *events) Write(p []byte) (int, error) {
	size := len(p)
	if len(e.held) > 0 {
		n := min(maxHeld-len(e.held), len(p))
		if end := bytes.Index(p[:n], emptyLine); end >= 0 {
			n = end + len(emptyLine)
		}
		held := append(e.held, p[:n]...)
		e.held, p = held[:0], p[n:]
		e.read(held, len(p) == 0)
	}
	e.read(p, true)
	return size, nil
}

var emptyLine = []byte("\n\n")

func (e *events) flush() {
	e.read(e.held, false)
	e.held = nil
}

// read processes the next piece. If hold is true and the piece ends inside an event that is still
// short and shows no sign of token counts, read holds the event's beginning until the rest arrives.
// If the rest cannot contain token counts either, the event is skipped, which is much cheaper than
// scanning it.
func (e *events) read(p []byte, hold bool) {
	for i := 0; i < len(p); {
		if e.atEvent && !e.cr {
			end := min(i+maxSkip, len(p))
			n, all := e.skip(p[i:end])
			if i += n; all && hold && end == len(p) && end-i <= maxHeld {
				e.held = append(e.held, p[i:]...)
				return
			}
			if n > 0 {
				continue
			}
		}
		e.atEvent = false
		if c := p[i]; c == '\n' || c == '\r' {
			if c != '\n' || !e.cr {
				e.endLine()
			}
			e.cr = c == '\r'
			i++
			continue
		}
		e.cr = false
		if e.line == lineName {
			e.name(p[i])
			i++
			continue
		}
		end := i + bytes.IndexByte(p[i:], '\n')
		if end < i {
			end = len(p)
		}
		if cr := bytes.IndexByte(p[i:end], '\r'); cr >= 0 {
			end = i + cr
		}
		if e.line == lineData {
			e.peek(p[i:end])
			_, _ = e.json.Write(p[i:end]) // never fails
		}
		i = end
	}
}

// skip skips complete events at the beginning of a piece if they cannot contain token counts; see
// [Pointers.before]. It returns their length in bytes, and whether all of the piece is known to
// contain no token counts. The check is cheap, and most events have no counts.
func (e *events) skip(p []byte) (end int, all bool) {
	size := len(p)
	if cr := bytes.IndexByte(p, '\r'); cr >= 0 {
		p = p[:cr]
	}
	p = p[:e.json.pointers.before(p)]
	for at := 0; at < len(p); at++ {
		if p[at] == '\n' {
			e.endEvent()
			end = at + 1
			continue
		}
		length := bytes.IndexByte(p[at:], '\n')
		if length < 0 {
			break
		}
		if length >= len(dataField) && string(p[at:at+len(dataField)]) == dataField {
			e.peek(p[at+len(dataField) : at+length])
		}
		at += length
	}
	return end, len(p) == size
}

func (e *events) name(c byte) {
	switch {
	case c != dataField[e.field]:
		e.line = lineOther
	case e.field+1 == len(dataField):
		e.line = lineData
	}
	e.field++
}

// peek determines whether the data of the event is an object.
func (e *events) peek(p []byte) {
	if e.object != 0 {
		return
	}
	for _, c := range p {
		if c != ' ' && c != '\t' {
			if e.object = -1; c == '{' {
				e.object = 1
			}
			return
		}
	}
}

var newLine = []byte{'\n'}

// endLine processes the end of a line. An empty line ends the event.
func (e *events) endLine() {
	switch {
	case e.line == lineData:
		_, _ = e.json.Write(newLine) // the lines of data are joined with newlines
	case e.line == lineName && e.field == 0:
		e.endEvent()
		e.json.Reset()
	}
	e.line, e.field = lineName, 0
}

func (e *events) endEvent() {
	if e.object > 0 {
		e.count++
	}
	e.object, e.atEvent = 0, true
}
