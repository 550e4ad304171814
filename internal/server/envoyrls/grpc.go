package envoyrls

import (
	"context"
	"slices"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Register adds the service to a gRPC server, which must use the [Codec]. Unlike
// [rlsv3.RegisterRateLimitServiceServer], it refuses a message with too many parts before the
// message is decoded, because decoding takes much longer than counting.
func (s *Service) Register(on grpc.ServiceRegistrar) {
	described := rlsv3.RateLimitService_ServiceDesc
	described.Methods = slices.Clone(described.Methods)
	described.Methods[0].Handler = s.handler() // ShouldRateLimit is the only method
	on.RegisterService(&described, s)
}

// handler returns a handler that works like the generated one, but reuses exchanges.
func (s *Service) handler() grpc.MethodHandler {
	info := &grpc.UnaryServerInfo{Server: s, FullMethod: rlsv3.RateLimitService_ShouldRateLimit_FullMethodName}
	decide := func(ctx context.Context, e any) (any, error) { return s.exchange(ctx, e.(*exchange)) }
	return func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (
		any, error) {
		e := s.exchanges.Get().(*exchange)
		defer s.release(e)
		if err := decode(e); err != nil {
			return nil, err
		}
		if intercept == nil {
			return decide(ctx, e)
		}
		return intercept(ctx, e, info, decide)
	}
}

// exchange is a request with its decision and its answer. Exchanges are reused.
type exchange struct {
	call    call
	request rlsv3.RateLimitRequest
	invalid error // why the message is not a valid request; nil if it is valid
	answer  answer
	encoded []byte
}

func (s *Service) release(e *exchange) {
	e.call.free()
	e.request.Reset()
	e.invalid = nil
	e.answer = answer{}
	s.exchanges.Put(e)
}

func (s *Service) exchange(ctx context.Context, e *exchange) (any, error) {
	if e.invalid != nil {
		return nil, e.invalid
	}
	err := s.respond(ctx, &e.call, &e.request, &e.answer)
	if err != nil {
		return nil, err
	}
	e.encoded, err = proto.MarshalOptions{}.MarshalAppend(e.encoded[:0], &e.answer.response)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "stint: the answer cannot be encoded: %v", err)
	}
	return encoded(slices.Clone(e.encoded)), nil
}

func (e *exchange) decode(message []byte) error {
	if countParts(message) > maxParts {
		return tooManyParts()
	}
	if err := proto.Unmarshal(message, &e.request); err != nil {
		return status.Errorf(codes.Internal, "stint: the message is not a RateLimitRequest: %v", err)
	}
	return nil
}

// maxParts is the maximum number of messages within a request: the request itself, its descriptors,
// the entries of the descriptors, and the limit and the hits of each descriptor.
const maxParts = 1 + 3*maxDescriptors + maxEntries

func tooManyParts() error {
	return status.Errorf(codes.InvalidArgument, "stint: too many descriptors and entries in one request; want at most %d descriptors with %d entries in all",
		maxDescriptors, maxEntries)
}

const descriptorsField = 2

// countParts counts the messages within a request. In a malformed request, it counts only the
// messages before the error, where a decoder would stop, too.
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

// eachMessage calls the function do for each field of message that might itself contain a message.
// It stops at the first malformed field.
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

type encoded []byte

// Codec returns the option that a gRPC server needs for the service. It sets a special codec for
// the messages of the service, and the usual codec for the messages of other services.
func Codec() grpc.ServerOption {
	return grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(protocodec.Name)})
}

type codec struct{ encoding.CodecV2 }

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(message any) (mem.BufferSlice, error) {
	if e, ok := message.(encoded); ok {
		return mem.BufferSlice{mem.SliceBuffer(e)}, nil
	}
	return c.CodecV2.Marshal(message)
}

// Unmarshal implements [encoding.CodecV2]. If a request is invalid, it stores the error in the
// exchange instead of returning it, because gRPC would give all errors the same code.
func (c codec) Unmarshal(data mem.BufferSlice, message any) error {
	e, ok := message.(*exchange)
	if !ok {
		return c.CodecV2.Unmarshal(data, message)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	e.invalid = e.decode(buffer.ReadOnlyData())
	return nil
}
