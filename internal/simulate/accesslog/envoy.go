package accesslog

import (
	"strings"

	"github.com/stint-limiter/stint/internal/clientip"
)

const noEnvoy = reason("not Envoy's default format: " +
	`[TIME] "REQUEST" STATUS FLAGS RECEIVED SENT DURATION UPSTREAM "FORWARDED FOR" "USER AGENT" "ID" "HOST"`)

// envoyText is Envoy's default format:
//
//	[TIME] "REQUEST" STATUS FLAGS RECEIVED SENT DURATION UPSTREAM-TIME
//	    "FORWARDED FOR" "USER AGENT" "REQUEST ID" "AUTHORITY" "UPSTREAM HOST"
//
// Istio's format has DETAILS TERMINATION "FAILURE" after the flags, and CLUSTER UPSTREAM-LOCAL
// LOCAL REMOTE SERVER-NAME ROUTE at the end.
type envoyText struct{}

// Parse implements [Format].
func (envoyText) Parse(line []byte, r *Record) error {
	r.reset()
	at, text, _ := strings.Cut(strings.TrimPrefix(r.keep(line), "["), "]")
	var isTime bool
	r.At, isTime = parseTime(at)
	request, text, ok := r.cutQuoted(text, raw)
	if !isTime || !ok {
		return noEnvoy
	}
	if err := r.readRequest(request); err != nil {
		return err
	}
	words, text := cutWords(text)
	if len(words) == 4 {
		var more []string
		_, text, _ = r.cutQuoted(text, raw)
		more, text = cutWords(text)
		words = append(words, more...)
	}
	if len(words) != 6 && len(words) != 8 {
		return noEnvoy
	}
	status, ok := readNumber(words[0])
	if !ok || status > 999 {
		return noEnvoy
	}
	r.Status = int(status)
	r.Bytes, _ = readNumber(words[len(words)-3])
	var values [4]string
	for i := range values {
		if values[i], text, ok = r.cutQuoted(text, raw); !ok {
			return noEnvoy
		}
	}
	forwarded := values[0]
	// Istio logs the address of the client in a separate field. Envoy appends it to the forwarded
	// addresses.
	if end := strings.Fields(text); len(end) > 4 {
		r.Client = clientip.ParsePeer(end[4])
	} else {
		comma := strings.LastIndexByte(forwarded, ',')
		r.Client = clientip.ParsePeer(strings.TrimSpace(forwarded[comma+1:]))
		forwarded = forwarded[:max(comma, 0)]
	}
	r.addHeader("X-Forwarded-For", forwarded)
	r.addHeader("User-Agent", values[1])
	r.addHeader("X-Request-Id", values[2])
	if values[3] != "-" {
		r.Host = values[3]
	}
	return nil
}

// cutWords returns the words before the next quoted value, and the text from that value on.
func cutWords(text string) (words []string, rest string) {
	end := max(strings.Index(text, ` "`), 0)
	return strings.Fields(text[:end]), text[end:]
}
