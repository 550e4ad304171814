package envoyrls

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stint-limiter/stint/internal/yamlread"
)

// metadata reads the dynamic metadata that a descriptor adds to answers. A null adds none.
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

// metadataValue reads any value. In metadata, all numbers are float64 and all keys are strings.
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

// dynamicMetadata returns the request, and the configured metadata of the descriptors that passed.
func (c *call) dynamicMetadata(r *rlsv3.RateLimitRequest) *structpb.Struct {
	list := &structpb.ListValue{}
	for _, d := range r.GetDescriptors() {
		if d != nil {
			list.Values = append(list.Values, structpb.NewStructValue(describe(d)))
		}
	}
	s := &structpb.Struct{Fields: map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(r.GetDomain()),
		"descriptors": structpb.NewListValue(list),
	}}
	if n := r.GetHitsAddend(); n != 0 {
		s.Fields["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
	passed := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range c.items {
		if it := &c.items[i]; it.counted() && it.code() == rlsv3.RateLimitResponse_OK {
			mergeInto(passed, it.rule.metadata)
		}
	}
	if len(passed.Fields) > 0 {
		s.Fields["metadata"] = structpb.NewStructValue(passed)
	}
	return s
}

func describe(d *commonv3.RateLimitDescriptor) *structpb.Struct {
	entries := &structpb.ListValue{}
	for _, e := range d.GetEntries() {
		entries.Values = append(entries.Values, structpb.NewStringValue(e.GetKey()+"="+e.GetValue()))
	}
	s := &structpb.Struct{Fields: map[string]*structpb.Value{"entries": structpb.NewListValue(entries)}}
	if l := d.GetLimit(); l != nil {
		s.Fields["limit"] = structpb.NewStringValue(describeLimit(l))
	}
	if n := d.GetHitsAddend(); n != nil {
		s.Fields["hitsAddend"] = structpb.NewNumberValue(float64(n.GetValue()))
	}
	return s
}

// describeLimit formats a limit like protobuf's text format, without zeros, but always with the
// same spaces.
func describeLimit(l *commonv3.RateLimitDescriptor_RateLimitOverride) string {
	var fields []string
	if n := l.GetRequestsPerUnit(); n != 0 {
		fields = append(fields, fmt.Sprintf("requests_per_unit:%d", n))
	}
	if unit := l.GetUnit(); unit != 0 {
		fields = append(fields, fmt.Sprintf("unit:%s", unit))
	}
	if m := l.GetUnitMultiplier(); m != nil {
		fields = append(fields, fmt.Sprintf("unit_multiplier:{value:%d}", m.GetValue()))
	}
	return strings.Join(fields, " ")
}

// mergeInto adds fields to a struct. Existing fields stay, and structs in both are merged.
func mergeInto(to, from *structpb.Struct) {
	for key, value := range from.GetFields() {
		there, ok := to.Fields[key]
		if !ok {
			to.Fields[key] = proto.CloneOf(value) // must not modify the configuration
		} else if s := there.GetStructValue(); s != nil {
			mergeInto(s, value.GetStructValue())
		}
	}
}
