package dashboard

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/internal/answer"
)

// worthZipping is from how many bytes on an answer is compressed: what fits into a packet or two is not worth it.
const worthZipping = 4 << 10

// send answers with a value that may be large.
func send(w http.ResponseWriter, r *http.Request, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		answer.Refuse(w, http.StatusInternalServerError, "internal", "The answer could not be written.")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Encoding")
	if len(body) >= worthZipping && takesGzip(r) {
		var zipped bytes.Buffer
		zip, _ := gzip.NewWriterLevel(&zipped, gzip.BestSpeed) // a level that there is
		_, _ = zip.Write(body)                                 // to memory
		_ = zip.Close()
		body = zipped.Bytes()
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a client that has gone away needs no answer
}

// takesGzip reports whether a client says that it takes compressed answers.
func takesGzip(r *http.Request) bool {
	for _, field := range r.Header["Accept-Encoding"] {
		for item := range strings.SplitSeq(field, ",") {
			coding, weight, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				_, q, _ := strings.Cut(weight, "=")
				zero := strings.Trim(q, " 0.") == "" && q != ""
				return !zero
			}
		}
	}
	return false
}
