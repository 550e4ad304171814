package envoyrls

import (
	"slices"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds on a request: each descriptor may be a counter, and requires a call to the store. Envoy
// sends at most one descriptor for each rate limit of a route, with one entry for each of its
// actions. Both numbers come from Envoy's configuration, never from a client; Envoy Gateway allows
// 64 rules.
const (
	maxDescriptors = 256
	maxEntries     = 4096 // of all descriptors together
)

// maxParts is the largest number of messages in a request within the bounds: the request itself,
// its descriptors, each with a limit of its own, and their entries. It bounds the cost of decoding
// other requests.
const maxParts = 1 + 2*maxDescriptors + maxEntries

func tooManyParts() error {
	return status.Errorf(codes.InvalidArgument, "stint: too many descriptors and entries in one request; want at most %d descriptors with %d entries in all",
		maxDescriptors, maxEntries)
}

// check reports what is wrong with a request under any configuration. For mistakes that
// envoyproxy/ratelimit also refuses, it uses the same code and text, so that existing searches find
// them.
func (s *Service) check(r *rlsv3.RateLimitRequest) error {
	descriptors := r.GetDescriptors()
	switch n := len(descriptors); {
	case r.GetDomain() == "":
		return status.Error(codes.Unknown, "rate limit domain must not be empty")
	case n == 0:
		return status.Error(codes.Unknown, "rate limit descriptor list must not be empty")
	case n > maxDescriptors:
		return status.Errorf(codes.InvalidArgument, "stint: %d descriptors in one request; want at most %d", n, maxDescriptors)
	}
	entries := 0
	for _, d := range descriptors {
		entries += len(d.GetEntries())
	}
	if entries > maxEntries {
		return status.Errorf(codes.InvalidArgument, "stint: %d entries in the descriptors of one request; want at most %d", entries, maxEntries)
	}
	if s.options.NegativeHits {
		return nil
	}
	if i := slices.IndexFunc(descriptors, (*commonv3.RateLimitDescriptor).GetIsNegativeHits); i >= 0 {
		err := status.Errorf(codes.PermissionDenied, "stint: descriptors[%d].is_negative_hits: hits are given back only where callers need a token or a certificate, "+
			"and this server asks for neither (--envoy-token-file, --tls-client-ca)", i)
		if unlogged, ok := s.refusals.Allow(1, complainEvery); ok {
			s.options.Logger.Warn("stint: negative hits were refused", "cause", err, "unlogged", unlogged)
		}
		return err
	}
	return nil
}

// descriptorsField is the number of [rlsv3.RateLimitRequest.Descriptors].
const descriptorsField = 2

// countParts counts the messages that a request consists of. In a malformed request, it counts
// those before the error, where a decoder would stop too.
func countParts(request []byte) int {
	n := 1
	eachMessage(request, func(field protowire.Number, descriptor []byte) {
		if field == descriptorsField {
			n++
			eachMessage(descriptor, func(protowire.Number, []byte) { n++ })
		}
	})
	return n
}

// eachMessage calls do for each field of a message that may itself be a message.
func eachMessage(message []byte, do func(field protowire.Number, value []byte)) {
	for len(message) > 0 {
		field, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return
		}
		message = message[size:]
		if kind == protowire.BytesType {
			var value []byte
			if value, size = protowire.ConsumeBytes(message); size >= 0 {
				do(field, value)
			}
		} else {
			size = protowire.ConsumeFieldValue(field, kind, message)
		}
		if size < 0 {
			return
		}
		message = message[size:]
	}
}
