package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/textproto"
	"slices"
	"strings"
)

const brokenJSON = reason("the line is no JSON object")

// jsonFormat reads objects of JSON, one in a line. They are decoded into a struct that has no fields but those that
// are wanted, made for the purpose; everything else is passed over.
type jsonFormat struct {
	name   string
	object any      // a pointer to the struct
	values []*value // all of it

	time, client, user, method, host, path, request, status, bytes, all choice
	headers, claims                                                     []choice

	noTime, noPath reason
}

// choice is a part of a record, and the values that it may be found in.
type choice struct {
	name   string // of a header or claim
	values []*value
}

func newJSONFormat(name string, places []place) *jsonFormat {
	f := &jsonFormat{name: name}
	f.object, f.values = newObject(places)
	single := map[string]*choice{
		"time": &f.time, "client": &f.client, "user": &f.user, "method": &f.method, "host": &f.host, "path": &f.path,
		"request": &f.request, "status": &f.status, "bytes": &f.bytes, "headers": &f.all,
	}
	for i, p := range places {
		c := single[p.part]
		switch p.part {
		case partHeader:
			c = named(&f.headers, p.name)
		case partClaim:
			c = named(&f.claims, p.name)
		}
		c.values = append(c.values, f.values[i])
	}
	f.noTime = reason("no time that can be read at " + whereIs(places, "time"))
	f.noPath = reason("no path at " + whereIs(places, "path"))
	return f
}

// named returns the choice of that name, which it adds if there is none.
func named(list *[]choice, name string) *choice {
	i := slices.IndexFunc(*list, func(c choice) bool { return c.name == name })
	if i < 0 {
		i = len(*list)
		*list = append(*list, choice{name: name})
	}
	return &(*list)[i]
}

// whereIs lists the places of a part, for people.
func whereIs(places []place, part string) string {
	var paths []string
	for _, p := range places {
		if p.part == part {
			paths = append(paths, strings.Join(p.keys, "."))
		}
	}
	return strings.Join(paths, ", ")
}

func (f *jsonFormat) String() string { return f.name }

// Parse implements [Format].
func (f *jsonFormat) Parse(line []byte, r *Record) error {
	r.reset()
	for _, v := range f.values {
		v.raw = v.raw[:0]
	}
	var mismatch *json.UnmarshalTypeError // a value where an object was to be: nothing of it is there
	err := json.Unmarshal(line, f.object)
	if err != nil && !errors.As(err, &mismatch) || !bytes.HasPrefix(trim(line), []byte("{")) {
		return brokenJSON
	}
	at, ok := parseTime(f.time.text(r))
	if !ok {
		return f.noTime
	}
	r.At = at
	if client := f.client.text(r); client != "" {
		if r.Client, ok = readClient(client); !ok {
			return brokenClient
		}
	}
	r.User = f.user.text(r)
	r.Host = f.host.text(r)
	r.Method = f.method.text(r)
	if err := f.readPath(r); err != nil {
		return err
	}
	if status, ok := readCount(f.status.text(r)); ok && status < 1000 {
		r.Status = int(status)
	}
	r.Bytes, _ = readCount(f.bytes.text(r))
	for i := range f.headers {
		r.addHeader(f.headers[i].name, f.headers[i].text(r))
	}
	f.readHeaders(r)
	for i := range f.claims {
		if value := f.claims[i].text(r); value != "" {
			r.Claims = append(r.Claims, Field{f.claims[i].name, value})
		}
	}
	return nil
}

// readPath reads the target, or for want of one the request line.
func (f *jsonFormat) readPath(r *Record) error {
	if target := f.path.text(r); target != "" {
		return r.readTarget(target)
	}
	if line := f.request.text(r); line != "" {
		return r.readRequest(line)
	}
	return f.noPath
}

// readHeaders reads an object that holds all headers, but not again those that are mapped by themselves. A header may
// be an array of its lines.
func (f *jsonFormat) readHeaders(r *Record) {
	mapped := r.Headers
	for _, v := range f.all.values {
		if len(v.raw) == 0 || v.raw[0] != '{' {
			continue
		}
		key, rest := cutValue(v.raw[1:])
		for len(key) > 0 {
			var lines []byte
			lines, rest = cutValue(rest)
			name := textproto.CanonicalMIMEHeaderKey(r.textOf(key))
			if name != "" && !slices.ContainsFunc(mapped, func(h Field) bool { return h.Name == name }) {
				r.addLines(name, lines)
			}
			key, rest = cutValue(rest)
		}
		return
	}
}

// addLines adds a header, or one for each element of an array.
func (r *Record) addLines(name string, lines []byte) {
	line, rest := lines, []byte(nil)
	if lines[0] == '[' {
		line, rest = cutValue(lines[1:])
	}
	for len(line) > 0 {
		r.addHeader(name, r.textOf(line))
		line, rest = cutValue(rest)
	}
}
