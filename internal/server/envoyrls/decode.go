package envoyrls

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-limiter/stint"
	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/yamlread"
)

// reader converts files to a configuration. It collects the mistakes in the files.
type reader struct {
	config   Config
	file     string
	nodes    yamlread.Counter // counts visited nodes, including those reached through aliases
	mistakes []config.Mistake
	// domainLines maps each domain to the position at which it was first set. tops maps top-level
	// descriptors to their positions.
	domainLines  map[string]string
	tops         map[*node]string
	mergeDomains bool
	// resources reports whether the input is xDS resources, which have no line numbers.
	resources bool
}

func newReader(mergeDomains bool) *reader {
	return &reader{config: Config{domains: map[string]*domain{}}, domainLines: map[string]string{},
		tops: map[*node]string{}, mergeDomains: mergeDomains}
}

var (
	rootKeys       = []string{"domain", "descriptors"}
	descriptorKeys = []string{
		"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric",
		"share_threshold", "metadata",
	}
	limitKeys    = []string{"unit", "requests_per_unit", "unit_multiplier", "unlimited", "name", "replaces"}
	replacesKeys = []string{"name"}
)

func (r *reader) read(file string, text []byte) {
	r.file, r.nodes = file, yamlread.Counter{Max: maxNodes}
	root, err := parse(text)
	if err != nil {
		r.note(err.Line, "", "error loading config file: %s", err.Message)
		return
	}
	r.root(root)
}

func (r *reader) root(root *yaml.Node) {
	fields := r.mapping(root, "", rootKeys)
	if fields == nil {
		return
	}
	name := r.text(fields["domain"], "domain")
	d := &domain{subject: subjectOf(name), override: name + " (override)"}
	switch first, again := r.domainLines[name]; {
	case name == "":
		r.mistake(fields.at("domain", root), "domain", "config file cannot have empty domain")
	case again && r.mergeDomains:
		d = r.config.domains[name]
	case again:
		r.mistake(fields["domain"], "domain", "duplicate domain '%s' in config file; first set at %s", name, first)
	default:
		r.domainLines[name] = r.position(fields["domain"])
		r.config.domains[name] = d
	}
	r.descriptors(&d.node, fields["descriptors"], "descriptors", name+".", 1)
}

func (r *reader) position(n *yaml.Node) string {
	if r.resources {
		return r.file
	}
	return fmt.Sprintf("%s:%d", r.file, n.Line)
}

// descriptors reads a list of descriptors, and adds them to parent. path is the position of the
// list, for messages. key is the prefix of the keys of the limits in the list.
func (r *reader) descriptors(parent *node, list *yaml.Node, path, key string, depth int) {
	if depth > maxDepth {
		r.mistake(list, path, "descriptors are nested too deeply; want at most %d levels", maxDepth)
		return
	}
	for i, element := range r.list(list, path) {
		at := fmt.Sprintf("%s[%d]", path, i)
		if fields := r.mapping(element, at, descriptorKeys); fields != nil {
			r.descriptor(parent, fields, element, at, key, depth)
		}
	}
}

func (r *reader) descriptor(parent *node, fields fields, n *yaml.Node, path, key string, depth int) {
	composite := r.text(fields["key"], path+".key")
	if composite == "" {
		r.mistake(fields.at("key", n), path, "descriptor has empty key")
	}
	if value := r.text(fields["value"], path+".value"); value != "" {
		composite += "_" + value
	}
	key += composite
	child := &node{}
	if first, ok := parent.children[composite]; ok {
		where := ""
		if r.mergeDomains && depth == 1 { // the first descriptor may be in another file
			where = "; first set at " + r.tops[first]
		}
		r.mistake(fields.at("key", n), path, "duplicate descriptor composite key '%s'%s", key, where)
	}
	if depth == 1 {
		r.tops[child] = r.position(n)
	}
	if parent.children == nil {
		parent.children = map[string]*node{}
	}
	parent.children[composite] = child
	if strings.Contains(composite, "*") {
		parent.wildcards = append(parent.wildcards,
			wildcard{parts: bytes.Split([]byte(composite), []byte("*")), next: child})
	}
	if r.boolean(fields["share_threshold"], path+".share_threshold") {
		child.pattern = composite
		if !strings.Contains(composite, "*") {
			r.mistake(fields["share_threshold"], path+".share_threshold",
				"share_threshold can only be used with wildcard values (containing '*'), but found key '%s'", composite)
		}
	}
	// These two options have no effect, because metrics never contain values from requests. They
	// are read to report mistakes in them.
	r.boolean(fields["detailed_metric"], path+".detailed_metric")
	r.boolean(fields["value_to_metric"], path+".value_to_metric")

	limit := rule{
		key:      key,
		shadow:   r.boolean(fields["shadow_mode"], path+".shadow_mode"),
		quota:    r.boolean(fields["quota_mode"], path+".quota_mode"),
		metadata: r.metadata(fields["metadata"], path+".metadata"),
	}
	if n := fields["rate_limit"]; !yamlread.IsNull(n) {
		if limits := r.mapping(n, path+".rate_limit", limitKeys); limits != nil {
			r.limit(&limit, limits, n, path+".rate_limit")
			child.rule = &limit
			r.config.rules = append(r.config.rules, &limit)
		}
	}
	r.descriptors(child, fields["descriptors"], path+".descriptors", key+".", depth+1)
}

func (r *reader) limit(limit *rule, fields fields, n *yaml.Node, path string) {
	limit.unlimited = r.boolean(fields["unlimited"], path+".unlimited")
	limit.name = r.text(fields["name"], path+".name")
	current := &rlsv3.RateLimitResponse_RateLimit{
		RequestsPerUnit: r.number(fields["requests_per_unit"], path+".requests_per_unit"),
		Name:            limit.name,
	}
	if n := fields["unit_multiplier"]; !yamlread.IsNull(n) {
		multiplier := r.number(n, path+".unit_multiplier")
		if multiplier == 0 {
			r.mistake(n, path+".unit_multiplier", "invalid unit multiplier '%s'; want at least 1", shown(n.Value))
		}
		current.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	name := r.text(fields["unit"], path+".unit")
	unit, ok := unitByName(name)
	switch {
	case limit.unlimited && ok:
		r.mistake(fields.at("unit", n), path+".unit", "should not specify rate limit unit when unlimited")
	case limit.unlimited:
	case !ok:
		r.mistake(fields.at("unit", n), path+".unit", "invalid rate limit unit '%s'; want %s", shown(name), unitNames)
	case windowOf(unit, multiplierOf(current)) == 0:
		r.mistake(fields.at("unit_multiplier", n), path, "a window of %d times a %s; want at most %d days",
			multiplierOf(current), strings.ToLower(unit.String()), stint.MaxWindow/day)
	}
	current.Unit = unit
	limit.setLimit(current)
	for i, element := range r.list(fields["replaces"], path+".replaces") {
		at := fmt.Sprintf("%s.replaces[%d]", path, i)
		replaces := r.mapping(element, at, replacesKeys)
		if replaces == nil {
			continue
		}
		switch name := r.text(replaces["name"], at+".name"); name {
		case "":
			r.mistake(element, at, "should not have an empty replaces entry")
		case limit.name:
			r.mistake(element, at, "replaces should not contain name of same descriptor")
		default:
			limit.replaces = append(limit.replaces, name)
		}
	}
}

// metadata reads the dynamic metadata that a descriptor adds to answers. It returns nil for null.
func (r *reader) metadata(n *yaml.Node, path string) *structpb.Struct {
	if yamlread.IsNull(n) {
		return nil
	}
	v := r.metadataValue(n, path, 1)
	if v.GetStructValue() == nil {
		r.mistake(n, path, "error parsing metadata: want a map")
	}
	return v.GetStructValue()
}

// metadataValue reads any value. In metadata, all numbers are float64, and all keys are strings.
func (r *reader) metadataValue(n *yaml.Node, path string, depth int) *structpb.Value {
	from := r.resolve(n)
	if depth > maxDepth {
		r.mistake(n, path, "error parsing metadata: it is nested too deeply; want at most %d levels", maxDepth)
		return structpb.NewNullValue()
	}
	if r.nodes.Over() {
		return structpb.NewNullValue()
	}
	switch from.Kind {
	case yaml.MappingNode:
		s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for key, value := range yamlread.Keys(from) {
			s.Fields[r.resolve(key.Node).Value] = r.metadataValue(value, path, depth+1)
		}
		return structpb.NewStructValue(s)
	case yaml.SequenceNode:
		l := &structpb.ListValue{}
		for _, element := range from.Content {
			l.Values = append(l.Values, r.metadataValue(element, path, depth+1))
		}
		return structpb.NewListValue(l)
	}
	if value, ok := truth(from); ok {
		return structpb.NewBoolValue(value)
	}
	switch from.Tag {
	case "!!null":
		return structpb.NewNullValue()
	case "!!int", "!!float":
		if f, ok := numberOf(from.Value); ok {
			return structpb.NewNumberValue(f)
		}
	}
	return structpb.NewStringValue(from.Value)
}

// numberOf parses a number that JSON can represent.
func numberOf(text string) (float64, bool) {
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return float64(i), true
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}
