package yamlread

import (
	"iter"

	"go.yaml.in/yaml/v3"
)

// Counter bounds the number of values that are read. A value counts again for each alias that
// repeats it. A Counter with a Max is ready to use.
type Counter struct {
	Max  int
	seen int
}

// Next counts a value. over reports whether there are more than Max values so far, and first
// reports whether this value is the first one above Max.
func (c *Counter) Next() (first, over bool) {
	c.seen++
	return c.seen == c.Max+1, c.seen > c.Max
}

// Over reports whether there were more than Max values.
func (c *Counter) Over() bool { return c.seen > c.Max }

// Resolve returns the node that an alias refers to. It returns any other node unchanged.
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
	// Node is the key as written in the file. Name is the key after aliases are resolved.
	Node, Name *yaml.Node
	// Merge reports whether the key is the merge key, "<<".
	Merge bool
	// First is the first of the earlier keys with the same name, or nil if there is none.
	First *yaml.Node
}

// IsName reports whether the key can be a name: a scalar that is not null, empty or tagged.
func (k *Key) IsName() bool {
	return k.Name.Kind == yaml.ScalarNode && !IsNull(k.Name) && k.Name.Value != "" && !IsTagged(k.Name)
}

// Keys returns an iterator over the keys and values of a mapping.
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
