// Package syntax defines the syntax of names and values in configurations and in HTTP.
package syntax

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// IsName reports whether s can be a name in a configuration, a store key or a metric: one or more
// ASCII letters, digits and "_-.". Callers check its length.
func IsName(s string) bool { return consistsOf(s, "_-.") }

// MaxName is the maximum length in bytes of most names in a configuration, and of the kinds of
// stored subjects (see package keypart).
const MaxName = 64

// IsShortName reports whether s is a name of at most [MaxName] bytes.
func IsShortName(s string) bool { return len(s) <= MaxName && IsName(s) }

// IsToken reports whether s is an HTTP token (RFC 9110, section 5.6.2), such as a header name or a
// method.
func IsToken(s string) bool { return consistsOf(s, "!#$%&'*+-.^_`|~") }

// IsHost reports whether s is a host, with or without a port, made only of characters that occur in
// host names, IP addresses and ports. HTTP allows other characters, such as commas, but some
// frameworks treat them as the end of the host.
func IsHost(s string) bool { return consistsOf(s, ".-_:[]") && Host(s) != "" }

// consistsOf reports whether s is not empty and consists only of ASCII letters, digits and the
// characters in others.
func consistsOf(s, others string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != ""
}

// Host strips the port, the brackets of an IPv6 address, and trailing dots from a host. For an
// argument that is not a host and port, such as "a:80:80", it returns the text before the first
// colon.
func Host(hostport string) string {
	host := hostport
	if end := strings.LastIndexByte(host, ']'); strings.HasPrefix(host, "[") && end > 0 {
		return host[1:end]
	}
	if before, after, ok := strings.Cut(host, ":"); ok {
		if _, err := netip.ParseAddr(host); err != nil || strings.IndexByte(after, ':') < 0 {
			host = before
		}
	}
	return strings.TrimRight(host, ".")
}

// SizePattern is a regular expression for sizes.
const SizePattern = `^[1-9][0-9]*(KiB|MiB|GiB|KB|MB|GB|B)?$`

// SizeExamples gives examples of sizes for error messages.
const SizeExamples = "a number of bytes such as 1024, 1KiB or 1MB"

// maxSize is the largest size in bytes. Whole numbers up to maxSize are exact in JSON.
const maxSize = 1 << 53

var sizeText = regexp.MustCompile(SizePattern)

// Size parses a number of bytes: 1024, 64MiB, 1GB. Its error begins with "want".
func Size(text string) (int64, error) {
	if !sizeText.MatchString(text) {
		return 0, fmt.Errorf("want %s", SizeExamples)
	}
	digits := strings.TrimRight(text, "BKMGi")
	factor := map[string]int64{
		"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	}[text[len(digits):]]
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number > maxSize/factor {
		return 0, fmt.Errorf("want at most %d bytes", int64(maxSize))
	}
	return number * factor, nil
}

// MinMemory is the minimum size of an in-memory store, in bytes.
const MinMemory = 1 << 20

// StatusClientGone is the status that nginx logs for a request whose client disconnected before the
// response.
const StatusClientGone = 499

// IsError reports whether a status is an error. StatusClientGone is not an error.
func IsError(status int) bool { return status >= 400 && status != StatusClientGone }

// Methods lists the HTTP methods that are counted separately. All others share one count.
var Methods = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}
