package pathpattern

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

func TestPattern(t *testing.T) {
	tests := []struct {
		pattern string
		fit     []string
		misfit  []string
	}{
		{pattern: "/", fit: []string{"/", "", "//", "/."}, misfit: []string{"/a"}},
		{pattern: "/login", fit: []string{"/login", "/login/", "//login", "/a/../login", "/./login"},
			misfit: []string{"/", "/Login", "/login/x", "/loginx"}},
		{pattern: "/users/{id}", fit: []string{"/users/42", "/users/a.b"},
			misfit: []string{"/users", "/users/", "/users/42/x"}},
		{pattern: "/a/*/c", fit: []string{"/a/b/c"}, misfit: []string{"/a/c", "/a/b/b/c"}},
		{pattern: "/static/**", fit: []string{"/static", "/static/", "/static/x", "/static/x/y.css"},
			misfit: []string{"/statics", "/", "/api/static/x", "/static/../api", "/static/%2e%2e"[:8] + ".."}},
		{pattern: "/**/*.css", fit: []string{"/x.css", "/a/b/x.css"},
			misfit: []string{"/.cs", "/x.css/y", "/css", "/"}},
		{pattern: "/**", fit: []string{"/", "/a", "/a/b"}},
		{pattern: "/{id}/x", fit: []string{"/42/x"}, misfit: []string{"/x", "/42/y", "/42/x/x"}},
		{pattern: "/*/v*/x", fit: []string{"/a/v1/x"}, misfit: []string{"/a/b/x", "/a/v1"}},
		{pattern: "/v*/**/{last}", fit: []string{"/v1/x", "/v/x", "/v22/a/b/c"}, misfit: []string{"/v1", "/x/v1/y"}},
		{pattern: "/a*b", fit: []string{"/ab", "/axxb"}, misfit: []string{"/a", "/b", "/axb/c"}},
		{pattern: "/o/{org}/**/e/{env}", fit: []string{"/o/acme/x/y/e/prod", "/o/acme/e/prod"},
			misfit: []string{"/o/acme/e"}},
	}
	for _, test := range tests {
		p, err := Parse(test.pattern)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for _, path := range test.fit {
			if !p.Fits(Clean(path)) {
				t.Errorf("%s does not fit %q", test.pattern, path)
			}
		}
		for _, path := range test.misfit {
			if p.Fits(Clean(path)) {
				t.Errorf("%s fits %q", test.pattern, path)
			}
		}
	}
}

func TestPatternMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"": "does not begin with /", "login": "does not begin with /", "*.css": "does not begin with /",
		"/a%20b": "without %, ? and #", "/a?b": "without %, ? and #", "/a#b": "without %, ? and #",
		"/a//b": `want "/a/b"`, "/a/../b": `want "/b"`,
		"/**/x/**": "** twice", "/x*y*z": "more than one *", "/a**": "more than one *",
		"/{id": "invalid variable", "/{a b}": "invalid variable", "/{}": "invalid variable",
		"/x{id}": "a variable is a whole segment", "/x}": "a variable is a whole segment",
		"/{id}/{id}": "the variable {id} twice", "/{id}/**/{id}": "the variable {id} twice",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
}

func TestPatternLength(t *testing.T) {
	longest := "/" + strings.Repeat("a", maxPattern-1)
	if _, err := Parse(longest); err != nil {
		t.Error(err)
	}
	if _, err := Parse(longest + "a"); err == nil {
		t.Errorf("%d bytes were accepted", maxPattern+1)
	}
}

// TestFolded: letters of either case fit where a path would but for its case, in every kind of
// segment, and nothing else does.
func TestFolded(t *testing.T) {
	for _, test := range []struct {
		pattern, path   string
		folded, exactly bool
	}{
		{"/login", "/login", true, true},
		{"/login", "/LogIn", true, false},
		{"/login", "/LogOut", false, false},
		{"/login", "/LogInX", false, false},
		{"/v*/x", "/V1/x", true, false},
		{"/*.css", "/a.CSS", true, false},
		{"/*.css", "/a.CSX", false, false},
		{"/a/**/Z", "/A/b/c/z", true, false},
		{"/{id}", "/X", true, true},
		{"/token", "/to\u212aen", true, false}, // the Kelvin sign
		{"/to*s", "/\u0422o\u017f", false, false},
		{"/to*s", "/TO-\u017f", true, false},
		{"/\u00dcber/{id}", "/\u00fcBER/x", true, false},
		{"/\u03c2", "/\u03a3", true, false},
		{"/things", "/th\u0131ngs", true, false},
		{"/things", "/TH\u0130NGS", true, false},
	} {
		p := testkit.Must(Parse(test.pattern))(t)
		if got := p.FitsFolded(Fold(test.path)); got != test.folded {
			t.Errorf("%s fits %s folded: %v, want %v", test.pattern, test.path, got, test.folded)
		}
		if got := p.Fits(test.path); got != test.exactly {
			t.Errorf("%s fits %s: %v, want %v", test.pattern, test.path, got, test.exactly)
		}
	}
}

func TestVariables(t *testing.T) {
	p := testkit.Must(Parse("/o/{org}/x/{team}/**/e/{env}/{id}"))(t)
	names := []string{"org", "team", "env", "id"}
	if got := p.Names(); !slices.Equal(got, names) {
		t.Errorf("names: %q, want %q", got, names)
	}
	for _, path := range []string{"/o/1/x/2/e/3/4", "/o/1/x/2/any/thing/e/3/4"} {
		for i, name := range names {
			if got, ok := p.Value(path, name); !ok || got != "1234"[i:i+1] {
				t.Errorf("%s of %s: %q, %v; want %q", name, path, got, ok, "1234"[i:i+1])
			}
		}
	}
	if got, ok := p.Value("/o/1/x/2/e/3/4", "other"); ok || got != "" {
		t.Errorf("a variable that is not there: %q, %v", got, ok)
	}
}

func TestPrefix(t *testing.T) {
	for _, test := range []struct {
		pattern, prefix string
		literal         bool
	}{
		{"/api/**", "/api", true},
		{"/api/**/", "/api", true},
		{"/a/b/**", "/a/b", true},
		{"/**", "", true},
		{"/api", "/api", false},
		{"/{v}/**", "/{v}", false},
		{"/v*/**", "/v*", false},
		{"/a/{v}/b/**", "/a/{v}/b", false},
		{"/api/**/x", "/api/**/x", false},
	} {
		p := testkit.Must(Parse(test.pattern))(t)
		if prefix, literal := p.Prefix(); prefix != test.prefix || literal != test.literal {
			t.Errorf("%s: %q, %v; want %q, %v", test.pattern, prefix, literal, test.prefix, test.literal)
		}
	}
}

func TestDotted(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "/a": false, "/a.b": false, "/.a": false, "/...": false, "/a/..b": false,
		"/a;.": false, "/a;/b.": false,
		"/.": true, "/..": true, "/a/./b": true, "/a/..": true, "/a/..;x": true, "/.;": true,
		`/a\..\b`: true, `\.`: true,
	} {
		if got := Dotted(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
}

func TestCleanPath(t *testing.T) {
	tests := map[string]string{
		"": "/", "/": "/", "a": "/a", "/a/": "/a", "//a": "/a", "/a//b": "/a/b", "/a/./b": "/a/b",
		"/a/../b": "/b", "/../..": "/", "/a/..": "/", "/.well-known/x": "/.well-known/x", "/a/...": "/a/...", "*": "/*",
	}
	for path, want := range tests {
		if got := Clean(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

// FuzzPattern holds the matcher against a slow one that looks at segments.
func FuzzPattern(f *testing.F) {
	f.Add("/a/{b}/**/c", "/a/x/y/c")
	f.Add("/**/*.css", "/a/x.css")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := Parse(pattern)
		if err != nil {
			return
		}
		clean := Clean(path)
		if Clean(clean) != clean {
			t.Fatalf("%q cleans to %q, which is not clean", path, clean)
		}
		if got, want := p.Fits(clean), slowFits(pattern, clean); got != want {
			t.Fatalf("%q fits %q: %v, want %v", pattern, clean, got, want)
		}
	})
}

// slowFits is what a pattern means, by its segments, trying every length of a gap.
func slowFits(pattern, clean string) bool {
	return segmentsFit(split(pattern), split(clean))
}

func split(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

func segmentsFit(pattern, path []string) bool {
	if len(pattern) == 0 {
		return len(path) == 0
	}
	if pattern[0] == "**" {
		for i := range len(path) + 1 {
			if segmentsFit(pattern[1:], path[i:]) {
				return true
			}
		}
		return false
	}
	return len(path) > 0 && wordFits(pattern[0], path[0]) && segmentsFit(pattern[1:], path[1:])
}

func wordFits(pattern, word string) bool {
	if strings.HasPrefix(pattern, "{") {
		return word != ""
	}
	prefix, suffix, star := strings.Cut(pattern, "*")
	if !star {
		return word == pattern
	}
	return len(word) >= len(prefix)+len(suffix) && strings.HasPrefix(word, prefix) && strings.HasSuffix(word, suffix)
}
