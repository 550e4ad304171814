package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/yamlread"
)

// maxValues is the maximum number of values in a file. If aliases repeat a value, it counts once
// for each alias.
const maxValues = 100_000

// decoder reads one file into the document. It adds tiers, policies and names to those from other
// files.
type decoder struct {
	*reader
	file   int
	values yamlread.Counter
}

func (d *decoder) decode(text []byte, doc *document) {
	d.values.Max = maxValues
	documents, err := yamlread.Parse(text)
	line, message := 1, ""
	switch {
	case err != nil:
		line, message = err.Line, err.Message
	case len(documents) == 0 || yamlread.IsNull(documents[0].Root):
		message = "no rules: the file is empty"
	case len(documents) > 1:
		line, message = documents[1].Line, "a second document; want one per file, without ---"
	default:
		d.value(documents[0].Root, reflect.ValueOf(doc).Elem(), "")
		return
	}
	d.bad(&yaml.Node{Line: line}, "", "%s", message)
}

// readable is implemented by the types that decode themselves.
type readable interface {
	// want describes valid values.
	want() string
	// read reads the value n of a key, or reports that it is invalid.
	read(d *decoder, n *yaml.Node, key string)
}

// value reads a node into v, which has one of the types in document.go.
func (d *decoder) value(n *yaml.Node, v reflect.Value, key string) {
	if !d.another(n, key) {
		return
	}
	n = yamlread.Resolve(n)
	switch {
	case yamlread.IsTagged(n):
		d.bad(n, key, "unsupported tag %s; want a value without a tag", n.Tag)
		return
	case yamlread.IsNull(n):
		d.bad(n, key, "no value; want %s, or leave it out", wantOf(v))
		return
	}
	if special, ok := v.Addr().Interface().(readable); ok {
		special.read(d, n, key)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), key)
	case reflect.Struct:
		d.structure(n, v, key)
	case reflect.Map:
		d.names(n, v, key)
	case reflect.Slice:
		d.items(n, v, key)
	case reflect.String:
		if text, ok := d.text(n, key, wantOf(v)); ok {
			v.SetString(text)
		}
	case reflect.Bool:
		v.SetBool(d.boolean(n, key))
	default:
		v.SetInt(d.integer(n, key))
	}
}

// another counts a value and reports whether the count is within the maximum. It records a mistake
// for the first value above the maximum.
func (d *decoder) another(n *yaml.Node, key string) bool {
	first, over := d.values.Next()
	if first {
		d.blind = true
		d.bad(n, key, "more than %d values in one file; an alias counts each time it is used", maxValues)
	}
	return !over
}

// structure reads a mapping whose keys are the fields of v. If a key is misspelled, structure
// reports a mistake but reads the value into the field with the nearest name. So the value is
// checked, and the field does not count as missing.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, key string) {
	fields := fieldsOf(v.Type())
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.key
	}
	taken := make(map[string]bool)
	for i := 0; i < len(n.Content); i += 2 {
		taken[n.Content[i].Value] = true
	}
	d.mapping(n, v, key, func(name string, k, value *yaml.Node) {
		i := slices.Index(known, name)
		if i < 0 {
			near, ok := messages.Nearest(name, known)
			if !ok || taken[near] {
				d.bad(k, join(key, name), "unknown key; the keys here are %s", strings.Join(known, ", "))
				return
			}
			taken[near] = true
			d.note(position{d.file, k.Line}, join(key, name), "unknown key%s", messages.Hint(name, known))
			i = slices.Index(known, near)
		}
		field, at := v.Field(fields[i].index), join(key, known[i])
		united := field.Kind() == reflect.Map || field.Kind() == reflect.Slice
		switch elsewhere := key == "" && d.has(at); {
		case !elsewhere:
			d.positions[at] = position{d.file, k.Line}
		case !united:
			d.twice(k, at)
			return
		}
		d.value(value, field, at)
	})
}

func (d *decoder) names(n *yaml.Node, v reflect.Value, key string) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	d.mapping(n, v, key, func(name string, k, value *yaml.Node) {
		at := join(key, name)
		if v.MapIndex(reflect.ValueOf(name)).IsValid() {
			d.twice(k, at)
			return
		}
		d.positions[at] = position{d.file, k.Line}
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(value, element, at)
		v.SetMapIndex(reflect.ValueOf(name), element)
	})
}

// items reads a list and appends its elements to v.
func (d *decoder) items(n *yaml.Node, v reflect.Value, key string) {
	if n.Kind != yaml.SequenceNode {
		d.bad(n, key, "want %s; got %s", wantOf(v), got(n))
		return
	}
	for _, element := range n.Content {
		i := v.Len()
		at := item(key, i)
		d.positions[at] = position{d.file, element.Line}
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		d.value(element, v.Index(i), at)
	}
}

// mapping calls f for each valid key of a mapping, and reports invalid keys.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, key string, f func(name string, k, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.bad(n, key, "want %s; got %s", wantOf(v), got(n))
		return
	}
	for k, value := range yamlread.Keys(n) {
		switch {
		case k.Merge:
			d.bad(k.Node, key, `merge keys ("<<") are not supported; write the keys out, or use an alias for a whole value`)
		case !k.IsName():
			d.cannotRead(join(key, k.Name.Value))
			d.note(position{d.file, k.Node.Line}, key, "want a word as a key; got %s", got(k.Name))
		case k.First != nil:
			d.note(position{d.file, k.Node.Line}, join(key, k.Name.Value), "duplicate key, first set at %s",
				d.where(position{d.file, k.First.Line}))
		default:
			f(k.Name.Value, k.Node, value)
		}
	}
}

// twice reports a key that another file has already set.
func (d *decoder) twice(n *yaml.Node, key string) {
	d.note(position{d.file, n.Line}, key, "duplicate key, first set at %s; all files together are one configuration", d.where(d.positions[key]))
}

// bad reports a value that cannot be read.
func (d *decoder) bad(n *yaml.Node, key, format string, args ...any) {
	d.cannotRead(key)
	d.note(position{d.file, n.Line}, key, format, args...)
}

type field struct {
	key   string
	index int
}

func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "-" {
			fields = append(fields, field{key, i})
		}
	}
	return fields
}

func wantOf(v reflect.Value) string {
	if special, ok := v.Addr().Interface().(readable); ok {
		return special.want()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return wantOf(reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct:
		var keys []string
		for _, f := range fieldsOf(v.Type()) {
			keys = append(keys, f.key)
		}
		return "a mapping with keys such as " + strings.Join(keys[:min(3, len(keys))], ", ")
	case reflect.Map:
		return "a mapping from names to " + wantOf(reflect.New(v.Type().Elem()).Elem())
	case reflect.Slice:
		return "a list, each element " + wantOf(reflect.New(v.Type().Elem()).Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "a whole number"
	}
	return "a string"
}

// got describes a node for messages about wrong values.
func got(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case yamlread.IsNull(n):
		return "nothing"
	}
	text := n.Value
	if scheme, _, ok := strings.Cut(text, "://"); ok {
		text = scheme + "://…" // the rest may contain a password
	}
	text = messages.Shorten(text, 80)
	if yamlread.IsQuoted(n) {
		return fmt.Sprintf("the string %q", text)
	}
	return fmt.Sprintf("%q", text)
}
