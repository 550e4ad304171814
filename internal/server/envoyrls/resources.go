package envoyrls

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/internal/yamlread"
)

// resourceType is the type of the resources of a configuration over xDS.
const resourceType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// resource is a RateLimitConfig as received, or an error if it is invalid.
type resource struct {
	name  string
	raw   []byte
	rules *rlsconfv3.RateLimitConfig
	err   error
}

// openResources reads resources and sorts them by name, because they arrive in no particular order.
func openResources(received []*anypb.Any) []resource {
	list := make([]resource, 0, len(received))
	for i, any := range received {
		r := resource{name: fmt.Sprintf("resources[%d]", i), raw: any.GetValue(), rules: &rlsconfv3.RateLimitConfig{}}
		switch err := proto.Unmarshal(any.GetValue(), r.rules); {
		case any.GetTypeUrl() != resourceType:
			r.err = fmt.Errorf("a resource of type %q; want %s", shown(any.GetTypeUrl()), resourceType)
		case err != nil:
			r.err = fmt.Errorf("the resource is not a valid RateLimitConfig: %w", err)
		case r.rules.GetName() != "":
			r.name = r.rules.GetName()
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b resource) int {
		return cmp.Or(strings.Compare(a.name, b.name), bytes.Compare(a.raw, b.raw))
	})
	return list
}

// filesOf returns resources as files, so that a change of the resources shows as a change of the
// files.
func filesOf(list []resource) []reload.File {
	files := make([]reload.File, 0, len(list))
	for _, r := range list {
		files = append(files, reload.File{Name: r.name, Text: r.raw})
	}
	return files
}

// readResources parses resources as a configuration, as [Read] does with files. An error is a
// [*config.Error] with every mistake in every resource.
func readResources(list []resource, mergeDomains bool) (*Config, error) {
	r := newReader(mergeDomains)
	r.resources = true
	for _, from := range list {
		r.file, r.nodes = oneLine(shown(from.name)), yamlread.Counter{Max: maxNodes}
		if from.err != nil {
			r.note(0, "", "%v", from.err)
			continue
		}
		root, err := nodeOf(from.rules)
		if err != nil {
			r.note(0, "", "%v", err)
			continue
		}
		r.root(root)
	}
	if len(r.mistakes) > 0 {
		return nil, &config.Error{Mistakes: r.mistakes}
	}
	return &r.config, nil
}

// nodeOf returns the content of a file with the same rules as a resource. The keys in files are the
// names of the resource's fields.
func nodeOf(rules *rlsconfv3.RateLimitConfig) (*yaml.Node, error) {
	anonymous := proto.CloneOf(rules)
	anonymous.Name = "" // files have no name
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(anonymous)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return nodeOfJSON(value), nil
}

func nodeOfJSON(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, nodeOfJSON(key), nodeOfJSON(v[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, element := range v {
			n.Content = append(n.Content, nodeOfJSON(element))
		}
		return n
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(v.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: v.String()}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}
	case string:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Style: yaml.DoubleQuotedStyle}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
}
