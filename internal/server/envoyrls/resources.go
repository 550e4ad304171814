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

const resourceType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// filesOf converts resources to files, so that a changed resource can be detected like a changed
// file. It sorts them by name, because resources arrive in no particular order.
func filesOf(received []*anypb.Any) []reload.File {
	files := make([]reload.File, 0, len(received))
	for i, resource := range received {
		name := fmt.Sprintf("resources[%d]", i)
		if rules, err := rulesOf(resource); err == nil {
			name = cmp.Or(rules.GetName(), name)
		}
		text, _ := proto.Marshal(resource) // never fails: the resource was decoded before
		files = append(files, reload.File{Name: name, Text: text})
	}
	slices.SortFunc(files, func(a, b reload.File) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), bytes.Compare(a.Text, b.Text))
	})
	return files
}

func rulesOf(resource *anypb.Any) (*rlsconfv3.RateLimitConfig, error) {
	if is := resource.GetTypeUrl(); is != resourceType {
		return nil, fmt.Errorf("a resource of type %q; want %s", shown(is), resourceType)
	}
	rules := &rlsconfv3.RateLimitConfig{}
	if err := proto.Unmarshal(resource.GetValue(), rules); err != nil {
		return nil, fmt.Errorf("the resource is not a valid RateLimitConfig: %w", err)
	}
	return rules, nil
}

// readResources parses the results of [filesOf] as a configuration, like [Read]. The error is a
// [*config.Error] with every mistake in every resource.
func readResources(files []reload.File, mergeDomains bool) (*Config, error) {
	r := newReader(mergeDomains)
	r.resources = true
	for _, f := range files {
		r.file, r.nodes = oneLine(shown(f.Name)), yamlread.Counter{Max: maxNodes}
		root, err := nodeOf(f.Text)
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

// nodeOf converts a resource to the root node of a YAML file with the same rules. The keys of such
// a file have the same names as the fields of a resource.
func nodeOf(resource []byte) (*yaml.Node, error) {
	var decoded anypb.Any
	if err := proto.Unmarshal(resource, &decoded); err != nil {
		return nil, err
	}
	rules, err := rulesOf(&decoded)
	if err != nil {
		return nil, err
	}
	rules.Name = "" // a file has no such key
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(rules)
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
