package tokens

import "bytes"

// events splits server-sent events, which arrive in pieces of any size, and passes on the data of
// each event as a separate text.
type events struct {
	json  *Scanner
	count int64 // number of events whose data is an object

	line    lineState
	field   int  // number of bytes of "data:" read in the line so far
	cr      bool // the last byte was a carriage return; a line feed after it belongs to the same line end
	atEvent bool // an event begins
	object  int8 // 1 if the data of the event is an object, -1 if it is not, 0 if unknown
}

type lineState uint8

const (
	lineName  lineState = iota // in the name of a field
	lineData                   // in the value of the field data
	lineOther                  // in a line that is ignored
)

const dataField = "data:"

func (e *events) Write(p []byte) (int, error) {
	for i := 0; i < len(p); {
		if e.atEvent && !e.cr {
			n := e.skip(p[i:min(i+maxSkip, len(p))])
			if i += n; n > 0 {
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
	return len(p), nil
}

// maxSkip limits how far ahead skip looks, so that a piece with many events is not scanned many
// times.
const maxSkip = 4 << 10

// skip skips whole events at the beginning of a piece that cannot hold any of the counters, and
// returns their length. The check is cheap, and most events have no counters.
func (e *events) skip(p []byte) int {
	if cr := bytes.IndexByte(p, '\r'); cr >= 0 {
		p = p[:cr]
	}
	p = p[:e.json.pointers.before(p)]
	end, at := 0, 0
	for {
		length := bytes.IndexByte(p[at:], '\n')
		switch {
		case length < 0:
			return end // an incomplete last event is scanned again
		case length == 0:
			e.endEvent()
			end = at + 1
		case length >= len(dataField) && string(p[at:at+len(dataField)]) == dataField:
			e.peek(p[at+len(dataField) : at+length])
		}
		at += length + 1
	}
}

// name processes a byte of a field's name.
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

// endLine ends a line. An empty one ends the event.
func (e *events) endLine() {
	switch {
	case e.line == lineData:
		_, _ = e.json.Write(newLine) // several lines of data form one text
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
