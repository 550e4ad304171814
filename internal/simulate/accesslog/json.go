package accesslog

import (
	"bytes"
	"encoding/json"
	"net/textproto"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/tokens"
)

const brokenJSON = reason("the line is not a JSON object")

// jsonFormat reads lines that are JSON objects. It skips all values that are not wanted, so it
// takes two thirds of the time that package encoding/json takes to fill a struct.
type jsonFormat struct {
	text   Format // format of lines that are not JSON; may be nil
	root   node
	values []*node // the wanted values

	time, client, user, method, host, path, request, status, bytes, all part
	headers, claims                                                     []part
	input, output, cached, maxOutput, model                             part

	noTime, noPath reason
}

// part describes a part of a record, and the values that it can come from.
type part struct {
	name   string // name of the header or claim; "" for other parts
	broken reason // error for an invalid value; set only for token counts
	values []*node
}

func newJSONFormat(paths []partPath) *jsonFormat {
	f := &jsonFormat{}
	single := map[string]*part{
		"time": &f.time, "client": &f.client, "user": &f.user, "method": &f.method, "host": &f.host, "path": &f.path,
		"request": &f.request, "status": &f.status, "bytes": &f.bytes, "headers": &f.all,
		partInput: &f.input, partOutput: &f.output, partCached: &f.cached, partMaxOutput: &f.maxOutput,
		partModel: &f.model,
	}
	for _, path := range paths {
		p := single[path.part]
		switch path.part {
		case partHeader:
			p = named(&f.headers, path.name)
		case partClaim:
			p = named(&f.claims, path.name)
		}
		value := f.root.at(path.keys)
		p.values, f.values = append(p.values, value), append(f.values, value)
	}
	for _, p := range []string{partInput, partOutput, partCached, partMaxOutput} {
		single[p].broken = reason(p + " at " + pathsTo(paths, p) + " is not a number of 0 or more")
	}
	f.noTime = reason("no valid time at " + pathsTo(paths, "time"))
	f.noPath = reason("no path at " + pathsTo(paths, "path"))
	return f
}

// named returns the part with the given name. If there is none, named adds it.
func named(list *[]part, name string) *part {
	i := slices.IndexFunc(*list, func(p part) bool { return p.name == name })
	if i < 0 {
		i = len(*list)
		*list = append(*list, part{name: name})
	}
	return &(*list)[i]
}

// pathsTo lists the paths to a part, for messages.
func pathsTo(paths []partPath, part string) string {
	var list []string
	for _, p := range paths {
		if p.part == part {
			list = append(list, strings.Join(p.keys, "."))
		}
	}
	return strings.Join(list, ", ")
}

// Parse implements [Format].
func (f *jsonFormat) Parse(line []byte, r *Record) error {
	r.reset()
	for _, v := range f.values {
		v.raw = nil
	}
	line = bytes.TrimSpace(line)
	switch isObject := bytes.HasPrefix(line, []byte("{")); {
	case !isObject && f.text != nil:
		return f.text.Parse(line, r)
	case !isObject || !json.Valid(line):
		return brokenJSON
	}
	f.root.read(line)
	at, ok := parseTime(f.time.text(r))
	if !ok {
		return f.noTime
	}
	r.At = at
	if client := f.client.text(r); client != "" {
		if r.Client, ok = readClient(client); !ok && !r.nameClient(client) {
			return brokenClient
		}
	}
	r.User = f.user.text(r)
	r.Host = f.host.text(r)
	r.Method = f.method.text(r)
	if err := f.readPath(r); err != nil {
		return err
	}
	if status, ok := readNumber(f.status.text(r)); ok && status < 1000 {
		r.Status = int(status)
	}
	r.Bytes, _ = readNumber(f.bytes.text(r))
	for i := range f.headers {
		r.addHeader(f.headers[i].name, f.headers[i].text(r))
	}
	f.readHeaders(r)
	for i := range f.claims {
		if value := f.claims[i].text(r); value != "" {
			r.Claims = append(r.Claims, Field{f.claims[i].name, value})
		}
	}
	return f.readTokens(r)
}

func (f *jsonFormat) readTokens(r *Record) error {
	t := &r.Tokens
	t.Bounded, t.Model = len(f.maxOutput.values) > 0, f.model.text(r)
	for _, count := range [...]struct {
		from *part
		to   *int64
	}{{&f.input, &t.Input}, {&f.output, &t.Output}, {&f.cached, &t.Cached}, {&f.maxOutput, &t.MaxOutput}} {
		text := count.from.text(r)
		if text == "" {
			continue
		}
		n, ok := tokens.Number([]byte(text))
		if !ok {
			return count.from.broken
		}
		*count.to = n
		t.Counted = t.Counted || count.to == &t.Input || count.to == &t.Output
	}
	return nil
}

// readPath reads the target of a request or, if there is none, its request line.
func (f *jsonFormat) readPath(r *Record) error {
	if target := f.path.text(r); target != "" {
		return r.readTarget(target)
	}
	if line := f.request.text(r); line != "" {
		return r.readRequest(line)
	}
	return f.noPath
}

// readHeaders reads the object that holds all headers. It skips headers that have already been read
// from separate paths. The value of a header may be an array.
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
				r.addValues(name, lines)
			}
			key, rest = cutValue(rest)
		}
		return
	}
}

// addValues adds a header field with a JSON value. If the value is an array, it adds a field for
// each element.
func (r *Record) addValues(name string, lines []byte) {
	line, rest := lines, []byte(nil)
	if lines[0] == '[' {
		line, rest = cutValue(lines[1:])
	}
	for len(line) > 0 {
		r.addHeader(name, r.textOf(line))
		line, rest = cutValue(rest)
	}
}
