package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// value is a JSON value as it is in the line.
type value struct{ raw []byte }

// UnmarshalJSON implements [json.Unmarshaler].
func (v *value) UnmarshalJSON(data []byte) error {
	v.raw = append(v.raw[:0], data...)
	return nil
}

// newObject returns a pointer to a struct that has a value at each path, and these values.
func newObject(parts []partPath) (object any, values []*value) {
	paths := make([][]string, 0, len(parts))
	for _, p := range parts {
		paths = append(paths, p.keys)
	}
	pointer := reflect.New(typeOf(paths))
	for _, path := range paths {
		values = append(values, valueAt(pointer.Elem(), path))
	}
	return pointer.Interface(), values
}

// typeOf returns the type of an object with a value at each path. No path leads through the end of
// another.
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
		name := fmt.Sprintf("F%d", i)
		fields = append(fields, reflect.StructField{Name: name, Type: typeOf(below[key]), Tag: tagOf(key)})
	}
	return reflect.StructOf(fields)
}

// tagOf returns the tag for a key. It ends in a comma because a tag "-" would omit the field.
func tagOf(key string) reflect.StructTag {
	return reflect.StructTag("json:" + strconv.Quote(key+","))
}

// valueAt returns the value at a path of an object that typeOf defined.
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

// text returns the first value that is not empty, or "".
func (p *part) text(r *Record) string {
	for _, v := range p.values {
		if text := r.textOf(v.raw); text != "" {
			return text
		}
	}
	return ""
}

// textOf returns a value as text; of an array, the first element. Null, objects and the "-" that
// servers write for missing values are "".
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

// cutValue returns the first value, or key, of the content of an array or an object, and the rest.
// The value is empty if there is none. The input is known to be valid. Unlike a json.Decoder, it
// allocates nothing.
func cutValue(s []byte) (value, rest []byte) {
	for len(s) > 0 && strings.IndexByte(" \t\r\n,:", s[0]) >= 0 {
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
