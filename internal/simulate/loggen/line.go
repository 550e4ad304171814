package loggen

import (
	"fmt"
	"time"
)

const host = "shop.example"

// appendLine appends a request as a line of the log. None of its values needs escaping.
func (c *people) appendLine(b []byte, e *event, at time.Time) []byte {
	path := e.path
	if e.number >= 0 {
		path = fmt.Sprint(path, e.number)
	}
	who := &e.who
	if !c.options.JSON {
		user := "-"
		if who.member {
			user = fmt.Sprint("user-", who.number)
		}
		return fmt.Appendf(b, "%v - %s [%s] \"%s %s HTTP/1.1\" %d %d \"-\" \"%s\"\n", who.client, user,
			at.Format("02/Jan/2006:15:04:05 -0700"), e.method, path, e.status, e.bytes, who.agent)
	}
	b = fmt.Appendf(b, `{"time":"%s","client":"%v","method":"%s","host":"%s","path":"%s","status":%d,"bytes":%d,"user_agent":"%s"`,
		at.Format("2006-01-02T15:04:05.000Z07:00"), who.client, e.method, host, path, e.status, e.bytes, who.agent)
	if who.member {
		b = fmt.Appendf(b, `,"user":"user-%d","api_key":"key-%d","plan":"%s"`, who.number, who.number, who.plan())
	}
	return append(b, "}\n"...)
}

// plan returns the plan of a member: one in ten has a paid plan.
func (p *person) plan() string {
	if p.number%10 == 3 {
		return "pro"
	}
	return "free"
}
