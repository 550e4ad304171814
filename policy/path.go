package policy

import (
	"net/url"
	"path"
	"strings"
)

// read sets the path's readings: clean, and those of routers that would see another one: because they go by the segments
// as they came, or because they take what follows a semicolon for a parameter of the segment.
func (f *facts) read() {
	f.readings[0], f.count = cleanPath(f.in.Path), 1
	f.path = f.readings[0]
	if f.in.RawPath != "" || f.path != f.in.Path {
		f.alsoRead(sentPath(f.in.Path, f.in.RawPath))
	}
	for _, reading := range f.readings[:f.count] {
		if strings.IndexByte(reading, ';') >= 0 {
			f.alsoRead(cleanPath(withoutParameters(reading)))
		}
	}
}

// alsoRead adds a reading, unless it is the first one.
func (f *facts) alsoRead(reading string) {
	if reading != f.path {
		f.readings[f.count] = reading
		f.count++
	}
}

// withoutParameters returns a path without what follows a semicolon in each segment.
func withoutParameters(p string) string {
	segments := strings.Split(p, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}

// cleanPath returns a path rooted, without empty or dotted segments and without a slash at its end.
func cleanPath(p string) string {
	if p == "" {
		return "/"
	}
	if p[0] == '/' && !untidy(p) {
		return p
	}
	return path.Clean("/" + p)
}

// untidy reports whether a rooted path has anything to clean.
func untidy(p string) bool {
	for i := 0; i+1 < len(p); i++ {
		if p[i] == '/' && (p[i+1] == '/' || p[i+1] == '.') {
			return true // or a segment that merely begins with a dot
		}
	}
	return len(p) > 1 && p[len(p)-1] == '/'
}

// sentPath returns a path in the segments that it was sent in, each decoded by itself: a slash that is encoded divides
// nothing. It is rooted, and has no slash at its end.
func sentPath(decoded, raw string) string {
	sent := decoded
	if raw != "" {
		segments := strings.Split(raw, "/")
		for i, s := range segments {
			if plain, err := url.PathUnescape(s); err == nil {
				segments[i] = strings.ReplaceAll(plain, "/", "%2F")
			}
		}
		sent = strings.Join(segments, "/")
	}
	if len(sent) > 1 {
		sent = strings.TrimSuffix(sent, "/")
	}
	if !strings.HasPrefix(sent, "/") {
		sent = "/" + sent
	}
	return sent
}
