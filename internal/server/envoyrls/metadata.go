package envoyrls

import (
	"fmt"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

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

// describeLimit returns a limit in the protobuf text format, without unset fields. Protobuf's own
// formatter deliberately varies its whitespace; describeLimit always returns the same text for the
// same limit.
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

// mergeInto adds the fields of one struct to another. It keeps the values of existing fields, and
// merges the fields that are structs in both.
func mergeInto(to, from *structpb.Struct) {
	for key, value := range from.GetFields() {
		there, ok := to.Fields[key]
		if !ok {
			to.Fields[key] = proto.CloneOf(value) // a later merge must not modify the configuration
		} else if s := there.GetStructValue(); s != nil {
			mergeInto(s, value.GetStructValue())
		}
	}
}
