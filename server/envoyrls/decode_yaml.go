package envoyrls

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-limiter/stint/policy"
)

// Bounds on a file, for aliases make much of little.
const (
	maxDepth = 64
	maxNodes = 1 << 20
)

// syntaxError is why a text is not YAML.
type syntaxError struct {
	line    int
	message string
}

var lineOfError = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

// parseYAML returns the one document in the text. Of an empty text that is a null. Documents that are null may follow:
// some programs end what they write with the line that begins another.
func parseYAML(text []byte) (*yaml.Node, *syntaxError) {
	var first yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	err := parseNext(decoder, &first)
	if errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1}, nil
	}
	for err == nil {
		var next yaml.Node
		if err = parseNext(decoder, &next); err == nil && !isNull(next.Content[0]) {
			return nil, &syntaxError{next.Line, "a second document; want one in a file"}
		}
	}
	if !errors.Is(err, io.EOF) {
		message := err.Error()
		parts := lineOfError.FindStringSubmatch(message)
		line := 1
		if len(parts) > 0 {
			message = message[len(parts[0]):]
			if n, err := strconv.Atoi(parts[1]); err == nil {
				line = n
			}
		}
		return nil, &syntaxError{line, "not YAML: " + message}
	}
	return first.Content[0], nil
}

// parseNext reads the next document. The library panics on some inputs that it does not expect.
func parseNext(decoder *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: it cannot be read: %v", p)
		}
	}()
	err = decoder.Decode(n)
	if err == nil && (n.Kind != yaml.DocumentNode || len(n.Content) != 1) {
		err = errors.New("yaml: not a document")
	}
	return err
}

// mistake notes what is wrong at a node.
func (r *reader) mistake(n *yaml.Node, path, format string, args ...any) {
	line := 1
	if n != nil {
		line = n.Line
	}
	r.note(line, path, format, args...)
}

func (r *reader) note(line int, path, format string, args ...any) {
	r.mistakes = append(r.mistakes, policy.Mistake{
		File: r.file, Line: max(line, 1), Key: path, Message: oneLine(fmt.Sprintf(format, args...)),
	})
}

// resolve follows an alias, and counts.
func (r *reader) resolve(n *yaml.Node) *yaml.Node {
	if r.nodes++; r.nodes == maxNodes {
		r.mistake(n, "", "oversized: more than %d values, aliases included", maxNodes)
	}
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// exhausted reports that the file was found to be too large.
func (r *reader) exhausted() bool { return r.nodes >= maxNodes }

func isNull(n *yaml.Node) bool {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// fields are the values of a mapping by their keys.
type fields map[string]*yaml.Node

// at returns the value of a key, or the mapping itself if it has none.
func (f fields) at(key string, mapping *yaml.Node) *yaml.Node {
	if n := f[key]; n != nil {
		return n
	}
	return mapping
}

// mapping reads a mapping that knows some keys, with what it merges from elsewhere. A null is an empty one, and anything
// else none: then it returns nil.
func (r *reader) mapping(n *yaml.Node, path string, known []string) fields {
	from := r.resolve(n)
	if r.exhausted() {
		return nil
	}
	f := fields{}
	if isNull(from) && path == "" {
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

// merge reads the keys of a mapping that are not yet known from one that it is merged into.
func (r *reader) merge(into fields, n *yaml.Node, path string, known []string, depth int) {
	own := fields{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch name := r.resolve(key); {
		case name.Tag == "!!merge":
			merged = append(merged, value)
		case name.Kind != yaml.ScalarNode || name.Tag != "!!str":
			r.mistake(key, path, "config error, key is not of type string: %s", shown(name.Value))
		case !slices.Contains(known, name.Value):
			r.mistake(key, path, "config error, unknown key '%s'%s", shown(name.Value), whereKnown(name.Value, known))
		case own[name.Value] != nil:
			r.mistake(key, path, "config error, key '%s' is given twice", name.Value)
		default:
			own[name.Value] = value
			if into[name.Value] == nil {
				into[name.Value] = value
			}
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
			if r.exhausted() {
				return
			}
			r.merge(into, source, path, known, depth+1)
		}
	}
}

// whereKnown says where a key would belong, or which ones there are.
func whereKnown(key string, known []string) string {
	for _, place := range []struct {
		name string
		keys []string
	}{{"the file", rootKeys}, {"a descriptor", descriptorKeys}, {"rate_limit", limitKeys}} {
		if slices.Contains(place.keys, key) {
			return "; it belongs to " + place.name
		}
	}
	return "; want " + strings.Join(known, ", ")
}

// list reads a list. A null is an empty one.
func (r *reader) list(n *yaml.Node, path string) []*yaml.Node {
	if isNull(n) || r.exhausted() {
		return nil
	}
	from := r.resolve(n)
	if from.Kind != yaml.SequenceNode {
		r.mistake(n, path, "want a list")
		return nil
	}
	return from.Content
}

// text reads any scalar as it is written. A null is an empty text.
func (r *reader) text(n *yaml.Node, path string) string {
	if isNull(n) {
		return ""
	}
	from := r.resolve(n)
	if from.Kind != yaml.ScalarNode {
		r.mistake(n, path, "want a text")
		return ""
	}
	return from.Value
}

// boolean reads true or false. A null is false.
func (r *reader) boolean(n *yaml.Node, path string) bool {
	if isNull(n) {
		return false
	}
	from := r.resolve(n)
	value, ok := truth(from)
	if !ok {
		r.mistake(n, path, "'%s' is neither true nor false%s", shown(from.Value), quoted(from))
	}
	return value
}

// truth reads the words for true and false, those of older YAML included. In quotes they are texts.
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

// quoted tells whoever has put something in quotes what that makes of it.
func quoted(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Style != 0 {
		return "; in quotes it is a text"
	}
	return ""
}

// number reads a whole number of 32 bits. A null is zero.
func (r *reader) number(n *yaml.Node, path string) uint32 {
	if isNull(n) {
		return 0
	}
	from := r.resolve(n)
	v, err := strconv.ParseUint(strings.TrimPrefix(from.Value, "+"), 0, 32)
	if err != nil || from.Kind != yaml.ScalarNode || from.Tag != "!!int" {
		r.mistake(n, path, "'%s' is not a whole number from 0 to %d%s", shown(from.Value), uint32(1<<32-1), quoted(from))
		return 0
	}
	return uint32(v)
}

// shown is a text as mistakes quote it: not all of it if it is long.
func shown(text string) string {
	const most = 128
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
