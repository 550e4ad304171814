package envoyrls

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/messages"
	"github.com/stint-limiter/stint/internal/yamlread"
)

// Bounds on a file. With aliases, even a small file can have millions of values.
const (
	maxDepth = 64
	maxNodes = 1 << 20
)

// parse returns the root of the only document in text, or a null if text is empty. The document may
// be followed by null documents, because some programs end their output with the line that begins
// another document.
func parse(text []byte) (*yaml.Node, *yamlread.SyntaxError) {
	documents, err := yamlread.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case len(documents) == 0:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1}, nil
	}
	for _, d := range documents[1:] {
		if !yamlread.IsNull(d.Root) {
			return nil, &yamlread.SyntaxError{Line: d.Line, Message: "a second document; want one in a file"}
		}
	}
	return documents[0].Root, nil
}

func (r *reader) mistake(n *yaml.Node, path, format string, args ...any) {
	line := 1
	if n != nil {
		line = n.Line
	}
	r.note(line, path, format, args...)
}

func (r *reader) note(line int, path, format string, args ...any) {
	if line = max(line, 1); r.resources {
		line = 0
	}
	r.mistakes = append(r.mistakes, config.Mistake{
		File: r.file, Line: line, Key: path, Message: oneLine(fmt.Sprintf(format, args...)),
	})
}

// resolve returns the node that n is an alias of, or n itself. It also counts n toward maxNodes.
func (r *reader) resolve(n *yaml.Node) *yaml.Node {
	if first, _ := r.nodes.Next(); first {
		r.mistake(n, "", "oversized: more than %d values, aliases included", maxNodes)
	}
	return yamlread.Resolve(n)
}

type fields map[string]*yaml.Node

// at returns the node at which to report a mistake about a key: its value or, if the key is
// missing, the mapping.
func (f fields) at(key string, mapping *yaml.Node) *yaml.Node {
	if n := f[key]; n != nil {
		return n
	}
	return mapping
}

// mapping reads a mapping with known keys, including mappings that are merged into it with <<. At
// the root of a file, where path is "", a null counts as an empty mapping. If n is not a mapping,
// the method reports a mistake and returns nil.
func (r *reader) mapping(n *yaml.Node, path string, known []string) fields {
	from := r.resolve(n)
	if r.nodes.Over() {
		return nil
	}
	f := fields{}
	if yamlread.IsNull(from) && path == "" {
		return f
	}
	if from.Kind != yaml.MappingNode {
		if strings.HasSuffix(path, "]") {
			r.mistake(n, path, "config error, yaml file contains list of type other than map: %s", shown(from.Value))
		} else {
			r.mistake(n, path, "want a map with the keys %s", strings.Join(known, ", "))
		}
		return nil
	}
	r.merge(f, from, path, known, 1)
	return f
}

// merge adds the keys of the mapping n to the fields in into. It does not replace the values of
// keys that are already there.
func (r *reader) merge(into fields, n *yaml.Node, path string, known []string, depth int) {
	var merged []*yaml.Node
	for key, value := range yamlread.Keys(n) {
		switch name := r.resolve(key.Node); {
		case key.Merge:
			merged = append(merged, value)
		case name.Kind != yaml.ScalarNode || name.Tag != "!!str":
			r.mistake(key.Node, path, "config error, key is not of type string: %s", shown(name.Value))
		case !slices.Contains(known, name.Value):
			r.mistake(key.Node, path, "config error, unknown key '%s'%s", shown(name.Value),
				whereKnown(name.Value, known))
		case key.First != nil:
			r.mistake(key.Node, path, "config error, duplicate key '%s'", name.Value)
		case into[name.Value] == nil:
			into[name.Value] = value
		}
	}
	for _, value := range merged {
		sources := []*yaml.Node{r.resolve(value)}
		if sources[0].Kind == yaml.SequenceNode {
			sources = sources[0].Content
		}
		for _, source := range sources {
			source = r.resolve(source)
			if source.Kind != yaml.MappingNode || depth > maxDepth {
				r.mistake(value, path, "only maps can be merged, at most %d deep", maxDepth)
				return
			}
			if r.nodes.Over() {
				return
			}
			r.merge(into, source, path, known, depth+1)
		}
	}
}

// whereKnown returns a hint about an unknown key: where the key belongs or, if it belongs nowhere,
// the known keys.
func whereKnown(key string, known []string) string {
	for _, parent := range []struct {
		name string
		keys []string
	}{{"the file", rootKeys}, {"a descriptor", descriptorKeys}, {"rate_limit", limitKeys}} {
		if slices.Contains(parent.keys, key) {
			return "; it belongs to " + parent.name
		}
	}
	return "; want " + strings.Join(known, ", ")
}

// list reads a list. A null is an empty list.
func (r *reader) list(n *yaml.Node, path string) []*yaml.Node {
	if yamlread.IsNull(n) || r.nodes.Over() {
		return nil
	}
	from := r.resolve(n)
	if from.Kind != yaml.SequenceNode {
		r.mistake(n, path, "want a list")
		return nil
	}
	return from.Content
}

// text reads any scalar as a string, as written. A null is an empty string.
func (r *reader) text(n *yaml.Node, path string) string {
	if yamlread.IsNull(n) {
		return ""
	}
	from := r.resolve(n)
	if from.Kind != yaml.ScalarNode {
		r.mistake(n, path, "want a string")
		return ""
	}
	return from.Value
}

// boolean reads true or false. A null is false.
func (r *reader) boolean(n *yaml.Node, path string) bool {
	if yamlread.IsNull(n) {
		return false
	}
	from := r.resolve(n)
	value, ok := truth(from)
	if !ok {
		r.mistake(n, path, "'%s' is neither true nor false%s", shown(from.Value), quoted(from))
	}
	return value
}

// truth parses a word for true or false. It accepts YAML 1.1 words, such as yes and off. It does
// not accept quoted words, which are strings.
func truth(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!str" && n.Style != 0 {
		return false, false
	}
	switch strings.ToLower(n.Value) {
	case "true", "yes", "on", "y":
		return true, true
	case "false", "no", "off", "n":
		return false, true
	}
	return false, false
}

// quoted returns an explanation for the message about n if n is quoted. Otherwise, it returns "".
func quoted(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Style != 0 {
		return "; in quotes it is a string"
	}
	return ""
}

// number reads an unsigned 32-bit integer. A null is zero.
func (r *reader) number(n *yaml.Node, path string) uint32 {
	if yamlread.IsNull(n) {
		return 0
	}
	from := r.resolve(n)
	v, err := strconv.ParseUint(strings.TrimPrefix(from.Value, "+"), 0, 32)
	if err != nil || from.Kind != yaml.ScalarNode || from.Tag != "!!int" {
		r.mistake(n, path, "'%s' is not a whole number from 0 to %d%s", shown(from.Value),
			uint32(1<<32-1), quoted(from))
		return 0
	}
	return uint32(v)
}

func shown(text string) string { return messages.Shorten(text, 128) }
