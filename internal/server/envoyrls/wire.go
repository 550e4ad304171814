package envoyrls

import (
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// The messages of a call are decoded and encoded here: package proto takes 1.4 µs and 11
// allocations for a request instead of 0.2 µs and 3, and 1.5 µs for an answer instead of 0.45 µs.

// Tags of the fields 1 and 2 as texts or messages, and of field 3 as a number.
const (
	bytes1, bytes2 = 1<<3 | 2, 2<<3 | 2
	varint3        = 3 << 3
)

// fewEntries is how many entries a plain request has at most.
const fewEntries = 8

// plainRequest is a request as most are: it has few descriptors, and they have nothing but entries.
// All of it is one piece of memory.
type plainRequest struct {
	request     rlsv3.RateLimitRequest
	descriptors [fewItems]commonv3.RateLimitDescriptor
	entries     [fewEntries]commonv3.RateLimitDescriptor_Entry
	pointers    struct {
		descriptors [fewItems]*commonv3.RateLimitDescriptor
		entries     [fewEntries]*commonv3.RateLimitDescriptor_Entry
	}
}

// decode reports whether the message is a plain request. If it is not, it may be another one.
func (p *plainRequest) decode(message []byte) bool {
	domain, hits := "", uint64(0)
	descriptors, entries := 0, 0
	for len(message) > 0 {
		tag := message[0]
		message = message[1:]
		if tag == varint3 {
			var size int
			if hits, size = protowire.ConsumeVarint(message); size < 0 {
				return false
			}
			message = message[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(message)
		if size < 0 {
			return false
		}
		message = message[size:]
		switch tag {
		case bytes1:
			if !utf8.Valid(value) {
				return false
			}
			domain = string(value)
		case bytes2:
			first := entries
			var ok bool
			if entries, ok = p.decodeEntries(value, entries); !ok || descriptors == fewItems {
				return false
			}
			d := &p.descriptors[descriptors]
			d.Entries = p.pointers.entries[first:entries:entries]
			p.pointers.descriptors[descriptors] = d
			descriptors++
		default:
			return false
		}
	}
	p.request.Domain, p.request.HitsAddend = domain, uint32(hits)
	p.request.Descriptors = p.pointers.descriptors[:descriptors:descriptors]
	return true
}

// decodeEntries decodes the entries of a descriptor, after n others, and returns how many there are
// then.
func (p *plainRequest) decodeEntries(descriptor []byte, n int) (int, bool) {
	for len(descriptor) > 0 {
		if descriptor[0] != bytes1 || n == fewEntries {
			return n, false
		}
		entry, size := protowire.ConsumeBytes(descriptor[1:])
		if size < 0 {
			return n, false
		}
		descriptor = descriptor[1+size:]
		e := &p.entries[n]
		e.Key, e.Value = "", ""
		for len(entry) > 0 {
			tag := entry[0]
			text, size := protowire.ConsumeBytes(entry[1:])
			if size < 0 || !utf8.Valid(text) {
				return n, false
			}
			entry = entry[1+size:]
			switch tag {
			case bytes1:
				e.Key = string(text)
			case bytes2:
				e.Value = string(text)
			default:
				return n, false
			}
		}
		p.pointers.entries[n] = e
		n++
	}
	return n, true
}

// appendResponse appends a response as [proto.Marshal] would encode it, of which it has the fields
// that this service fills in.
func appendResponse(b []byte, r *rlsv3.RateLimitResponse) ([]byte, error) {
	b = appendNumber(b, 1, uint64(r.GetOverallCode()))
	for _, s := range r.GetStatuses() {
		b = appendMessage(b, 2)
		start := len(b)
		b = appendStatus(b, s)
		b = setLength(b, start)
	}
	for _, h := range r.GetResponseHeadersToAdd() {
		b = appendMessage(b, 3)
		start := len(b)
		b = appendHeader(b, h)
		b = setLength(b, start)
	}
	if r.GetDynamicMetadata() == nil {
		return b, nil
	}
	b = appendMessage(b, 6)
	start := len(b)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, r.GetDynamicMetadata())
	return setLength(b, start), err
}

func appendStatus(b []byte, s *rlsv3.RateLimitResponse_DescriptorStatus) []byte {
	b = appendNumber(b, 1, uint64(s.GetCode()))
	if limit := s.GetCurrentLimit(); limit != nil {
		b = appendMessage(b, 2)
		start := len(b)
		b = appendNumber(b, 1, uint64(limit.GetRequestsPerUnit()))
		b = appendNumber(b, 2, uint64(limit.GetUnit()))
		b = appendText(b, 3, limit.GetName())
		if multiplier := limit.GetUnitMultiplier(); multiplier != nil {
			b = appendMessage(b, 4)
			start := len(b)
			b = appendNumber(b, 1, uint64(multiplier.GetValue()))
			b = setLength(b, start)
		}
		b = setLength(b, start)
	}
	b = appendNumber(b, 3, uint64(s.GetLimitRemaining()))
	if reset := s.GetDurationUntilReset(); reset != nil {
		b = appendMessage(b, 4)
		start := len(b)
		b = appendNumber(b, 1, uint64(reset.GetSeconds()))
		b = setLength(b, start)
	}
	return b
}

func appendHeader(b []byte, h *corev3.HeaderValue) []byte {
	return appendText(appendText(b, 1, h.GetKey()), 2, h.GetValue())
}

// appendNumber appends a field that is not sent if it is zero.
func appendNumber(b []byte, field byte, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, field<<3|byte(protowire.VarintType)), n)
}

// appendText appends a field that is not sent if it is empty.
func appendText(b []byte, field byte, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(append(b, field<<3|byte(protowire.BytesType)), text)
}

// appendMessage begins a field that is a message, with one byte for its length.
func appendMessage(b []byte, field byte) []byte {
	return append(b, field<<3|byte(protowire.BytesType), 0)
}

// setLength sets the length of the message that begins at start, which is known at its end. Few
// take more than one byte.
func setLength(b []byte, start int) []byte {
	n := len(b) - start
	size := protowire.SizeVarint(uint64(n))
	if size > 1 {
		b = append(b, make([]byte, size-1)...)
		copy(b[start+size-1:], b[start:start+n])
	}
	protowire.AppendVarint(b[:start-1], uint64(n))
	return b
}
