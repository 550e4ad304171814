package yamlread

import (
	"iter"

	"go.yaml.in/yaml/v3"
)

// Counter bounds the number of values that are read. A value counts once for each alias that
// repeats it. The zero Counter with a Max is ready for use.
type Counter struct {
	Max  int
	seen int
}

// Next counts a value. Over reports whether there are now too many, and first whether this is the
// first one too many.
func (c *Counter) Next() (first, over bool) {
	c.seen++
	return c.seen == c.Max+1, c.seen > c.Max
}

// Over reports whether there were too many values.
func (c *Counter) Over() bool { return c.seen > c.Max }

// Resolve returns the node that an alias refers to; any other node is returned unchanged.
func Resolve(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// IsNull reports whether a node is null or missing.
func IsNull(n *yaml.Node) bool {
	n = Resolve(n)
	return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// IsQuoted reports whether a scalar is in quotes.
func IsQuoted(n *yaml.Node) bool { return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 }

// IsTagged reports whether a node has an explicit tag.
func IsTagged(n *yaml.Node) bool { return n.Style&yaml.TaggedStyle != 0 }

// Key is a key of a mapping.
type Key struct {
	// Node is the key as written in the file, and Name its value with aliases resolved.
	Node, Name *yaml.Node
	// Merge reports that the key is the merge key, "<<".
	Merge bool
	// First is the earlier key with the same name, or nil.
	First *yaml.Node
}

// IsName reports whether the key is a valid text.
func (k *Key) IsName() bool {
	return k.Name.Kind == yaml.ScalarNode && !IsNull(k.Name) && k.Name.Value != "" && !IsTagged(k.Name)
}

// Keys yields the keys and values of a mapping.
func Keys(mapping *yaml.Node) iter.Seq2[Key, *yaml.Node] {
	return func(yield func(Key, *yaml.Node) bool) {
		first := map[string]*yaml.Node{}
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			k := Key{Node: mapping.Content[i], Name: Resolve(mapping.Content[i])}
			if k.Merge = k.Name.Tag == "!!merge"; !k.Merge && k.IsName() {
				if k.First = first[k.Name.Value]; k.First == nil {
					first[k.Name.Value] = k.Node
				}
			}
			if !yield(k, mapping.Content[i+1]) {
				return
			}
		}
	}
}
