package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// value is a value of JSON as it stands in a line.
type value struct{ raw []byte }

// UnmarshalJSON implements [json.Unmarshaler].
func (v *value) UnmarshalJSON(data []byte) error {
	v.raw = append(v.raw[:0], data...)
	return nil
}

// newObject returns a pointer to a struct with a value at each place, and those values.
func newObject(places []place) (object any, values []*value) {
	paths := make([][]string, 0, len(places))
	for _, p := range places {
		paths = append(paths, p.keys)
	}
	pointer := reflect.New(typeOf(paths))
	for _, path := range paths {
		values = append(values, valueAt(pointer.Elem(), path))
	}
	return pointer.Interface(), values
}

// typeOf returns the type of an object with values at all of the paths. None of them leads through another's end.
func typeOf(paths [][]string) reflect.Type {
	if len(paths[0]) == 0 {
		return reflect.TypeFor[value]()
	}
	var keys []string
	below := map[string][][]string{}
	for _, path := range paths {
		key := path[0]
		if below[key] == nil {
			keys = append(keys, key)
		}
		below[key] = append(below[key], path[1:])
	}
	var fields []reflect.StructField
	for i, key := range keys {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: typeOf(below[key]), Tag: tagOf(key)})
	}
	return reflect.StructOf(fields)
}

// tagOf ends in a comma, without which a key "-" would mean that the field is left out.
func tagOf(key string) reflect.StructTag {
	return reflect.StructTag("json:" + strconv.Quote(key+","))
}

// valueAt returns the value at a path that the type was made with.
func valueAt(object reflect.Value, path []string) *value {
	for _, key := range path {
		for i := range object.NumField() {
			if object.Type().Field(i).Tag == tagOf(key) {
				object = object.Field(i)
				break
			}
		}
	}
	return object.Addr().Interface().(*value)
}

// text returns the first of the values that there is, or "".
func (c *choice) text(r *Record) string {
	for _, v := range c.values {
		if text := r.textOf(v.raw); text != "" {
			return text
		}
	}
	return ""
}

// textOf returns a value as text, the first one of an array. Null, objects, and the "-" that servers write for what
// there is not, are "".
func (r *Record) textOf(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		inner := raw[1 : len(raw)-1]
		if len(inner) == 1 && inner[0] == '-' {
			return ""
		}
		if bytes.IndexByte(inner, '\\') < 0 {
			return r.keep(inner)
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return ""
		}
		return text
	case '[':
		if first, _ := cutValue(raw[1:]); len(first) > 0 && first[0] != '[' {
			return r.textOf(first)
		}
		return ""
	case '{', 'n':
		return ""
	}
	return r.keep(raw)
}

// cutValue returns the first of the values, or keys, that stand within an array or an object, and what follows it. There is
// none if it is empty. What it is given is known to be valid.
func cutValue(s []byte) (value, rest []byte) {
	for len(s) > 0 && (isBlank(s[0]) || s[0] == ',' || s[0] == ':') {
		s = s[1:]
	}
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			for i++; s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return s[:i], s[i:]
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s[:i], s[i:]
			}
		}
	}
	return nil, nil
}
