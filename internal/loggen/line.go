package loggen

import (
	"strconv"
	"time"
)

const host = "shop.example"

// appendLine appends a request as a line of the log.
func (c *people) appendLine(b []byte, e *event, at time.Time) []byte {
	if c.options.JSON {
		return c.appendJSON(b, e, at)
	}
	b = e.who.client.AppendTo(b)
	b = append(b, " - "...)
	if e.who.member {
		b = e.who.appendName(b, "user-")
	} else {
		b = append(b, '-')
	}
	b = append(b, " ["...)
	b = at.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, `] "`...)
	b = append(b, e.method...)
	b = append(b, ' ')
	b = e.appendPath(b)
	b = append(b, ` HTTP/1.1" `...)
	b = strconv.AppendInt(b, int64(e.status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(e.bytes), 10)
	b = append(b, ` "-" "`...)
	b = append(b, e.who.agent...)
	return append(b, "\"\n"...)
}

// appendJSON writes names and values that need no escapes.
func (c *people) appendJSON(b []byte, e *event, at time.Time) []byte {
	b = append(b, `{"time":"`...)
	b = at.AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
	b = append(b, `","client":"`...)
	b = e.who.client.AppendTo(b)
	b = append(b, `","method":"`...)
	b = append(b, e.method...)
	b = append(b, `","host":"`+host+`","path":"`...)
	b = e.appendPath(b)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(e.status), 10)
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, int64(e.bytes), 10)
	b = append(b, `,"user_agent":"`...)
	b = append(b, e.who.agent...)
	if e.who.member {
		b = append(b, `","user":"`...)
		b = e.who.appendName(b, "user-")
		b = append(b, `","api_key":"`...)
		b = e.who.appendName(b, "key-")
		b = append(b, `","plan":"`...)
		b = append(b, e.who.plan()...)
	}
	return append(b, "\"}\n"...)
}

func (e *event) appendPath(b []byte) []byte {
	b = append(b, e.path...)
	if e.number >= 0 {
		b = strconv.AppendInt(b, int64(e.number), 10)
	}
	return b
}

func (p *person) appendName(b []byte, prefix string) []byte {
	b = append(b, prefix...)
	return strconv.AppendInt(b, int64(p.number), 10)
}

// plan is that of a member: one in ten pays.
func (p *person) plan() string {
	if p.number%10 == 3 {
		return "pro"
	}
	return "free"
}
