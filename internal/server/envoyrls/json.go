package envoyrls

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

const maxBody = 256 << 10

// JSONHandler returns a handler for clients that do not use gRPC. The body of a POST request is a
// RateLimitRequest as JSON, and the body of the response is a RateLimitResponse. [Options.Public]
// defines which callers are served. The statuses are:
//
//	200  the request is allowed
//	400  the request is invalid, or has too many descriptors
//	401  the caller is not served
//	403  the request comes from a page on another site, or has negative hits that are not allowed
//	405  the method is not POST
//	413  the request is too large
//	415  the type of the body is not JSON
//	429  the request is over a limit
//	500  an internal error occurred
//	503  the store cannot decide
func (s *Service) JSONHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if !s.posts.Admit(w, r) {
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				http.Error(w, "envoyrls: the body is larger than 256 KiB", http.StatusRequestEntityTooLarge)
				return
			}
			http.Error(w, "envoyrls: the body cannot be read", http.StatusBadRequest)
			return
		}
		// Every message within a request is a JSON object. Braces in strings are counted, too, but
		// requests have few of them.
		if bytes.Count(body, []byte("{")) > maxParts {
			http.Error(w, status.Convert(tooManyParts()).Message(), http.StatusBadRequest)
			return
		}
		var request rlsv3.RateLimitRequest
		if err := protojson.Unmarshal(body, &request); err != nil {
			// The text of err begins with "proto:" and either a space or a no-break space.
			why := strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))
			http.Error(w, "envoyrls: the body is not a RateLimitRequest: "+oneLine(shown(why)), http.StatusBadRequest)
			return
		}
		response, err := s.ShouldRateLimit(r.Context(), &request)
		if err != nil {
			http.Error(w, status.Convert(err).Message(), statusOf(err))
			return
		}
		text, err := protojson.Marshal(response)
		if err != nil {
			http.Error(w, "envoyrls: the answer cannot be written as JSON", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if response.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = w.Write(text) // an error means that the client has gone away
	})
}

func statusOf(err error) int {
	switch status.Code(err) {
	case codes.Unknown, codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}
