package tokens

import "bytes"

// events splits server-sent events, in pieces of any size, and passes the data of each on as a text
// of its own.
type events struct {
	json  *Scanner
	count int64 // of events whose data is an object

	line   lineState
	field  int  // how many bytes of "data:" the line has so far
	cr     bool // the last byte was a carriage return, which a line feed belongs to
	object int8 // 1 if the data of the event is an object, -1 if it is not, 0 before it
}

type lineState uint8

const (
	lineName  lineState = iota // in the name of a field
	lineData                   // in the value of the field data
	lineOther                  // in a line that does not matter
)

const dataField = "data:"

var dataPrefix = []byte(dataField)

func (e *events) Write(p []byte) (int, error) {
	lf := -1 // the next line feed, so that each is looked for once
	for i := 0; i < len(p); {
		if c := p[i]; c == '\n' || c == '\r' {
			if c != '\n' || !e.cr {
				e.endLine()
			}
			e.cr = c == '\r'
			i++
			continue
		}
		e.cr = false
		if e.line == lineName && e.field == 0 && bytes.HasPrefix(p[i:], dataPrefix) {
			e.line, e.field = lineData, len(dataPrefix)
			i += len(dataPrefix)
			continue
		}
		if e.line == lineName {
			e.name(p[i])
			i++
			continue
		}
		if lf < i {
			if lf = bytes.IndexByte(p[i:], '\n') + i; lf < i {
				lf = len(p)
			}
		}
		end := lf
		if cr := bytes.IndexByte(p[i:end], '\r'); cr >= 0 {
			end = i + cr
		}
		if e.line == lineData && (e.object != 0 || !e.json.pointers.absent(p[i:end]) || !endsEvent(p[end:])) {
			e.data(p[i:end])
		} else if e.line == lineData {
			e.peek(p[i:end]) // most events have none of the counters
		}
		i = end
	}
	return len(p), nil
}

// name takes a byte of a field's name.
func (e *events) name(c byte) {
	switch {
	case c != dataField[e.field]:
		e.line = lineOther
	case e.field+1 == len(dataField):
		e.line = lineData
	}
	e.field++
}

// endsEvent reports whether a text begins with the end of a line and an empty one. It may not say
// so where lines end in another way.
func endsEvent(p []byte) bool {
	return bytes.HasPrefix(p, lineFeeds) || bytes.HasPrefix(p, crLineFeeds)
}

var lineFeeds, crLineFeeds = []byte("\n\n"), []byte("\r\n\r\n")

func (e *events) data(p []byte) {
	e.peek(p)
	_, _ = e.json.Write(p) // never fails
}

// peek finds out whether the data of the event is an object.
func (e *events) peek(p []byte) {
	if e.object == 0 {
		if first := bytes.TrimLeft(p, " \t"); len(first) > 0 {
			if e.object = -1; first[0] == '{' {
				e.object = 1
			}
		}
	}
}

var newLine = []byte{'\n'}

// endLine ends a line. An empty one ends the event.
func (e *events) endLine() {
	switch {
	case e.line == lineData:
		_, _ = e.json.Write(newLine) // data of several lines is one text
	case e.line == lineName && e.field == 0:
		if e.object > 0 {
			e.count++
		}
		e.object = 0
		e.json.Reset()
	}
	e.line, e.field = lineName, 0
}
