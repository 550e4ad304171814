package pathpattern

import "testing"

func TestPattern(t *testing.T) {
	tests := []struct {
		pattern  string
		fit      []string
		misfit   []string
		variable string // its name and value in the first that fits
		value    string
	}{
		{pattern: "/", fit: []string{"/", "", "//", "/."}, misfit: []string{"/a"}},
		{pattern: "/login", fit: []string{"/login", "/login/", "//login", "/a/../login", "/./login"},
			misfit: []string{"/", "/Login", "/login/x", "/loginx"}},
		{pattern: "/users/{id}", fit: []string{"/users/42", "/users/a.b"},
			misfit: []string{"/users", "/users/", "/users/42/x"}, variable: "id", value: "42"},
		{pattern: "/a/*/c", fit: []string{"/a/b/c"}, misfit: []string{"/a/c", "/a/b/b/c"}},
		{pattern: "/static/**", fit: []string{"/static", "/static/", "/static/x", "/static/x/y.css"},
			misfit: []string{"/statics", "/", "/api/static/x", "/static/../api", "/static/%2e%2e"[:8] + ".."}},
		{pattern: "/**/*.css", fit: []string{"/x.css", "/a/b/x.css"},
			misfit: []string{"/.cs", "/x.css/y", "/css", "/"}},
		{pattern: "/**", fit: []string{"/", "/a", "/a/b"}},
		{pattern: "/v*/**/{last}", fit: []string{"/v1/x", "/v/x", "/v22/a/b/c"}, misfit: []string{"/v1", "/x/v1/y"},
			variable: "last", value: "x"},
		{pattern: "/a*b", fit: []string{"/ab", "/axxb"}, misfit: []string{"/a", "/b", "/axb/c"}},
		{pattern: "/o/{org}/**/e/{env}", fit: []string{"/o/acme/x/y/e/prod", "/o/acme/e/prod"},
			misfit: []string{"/o/acme/e"}, variable: "env", value: "prod"},
	}
	for _, test := range tests {
		p, err := Parse(test.pattern)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for _, path := range test.fit {
			if !p.Fits(Clean(path), false) {
				t.Errorf("%s does not fit %q", test.pattern, path)
			}
		}
		for _, path := range test.misfit {
			if p.Fits(Clean(path), false) {
				t.Errorf("%s fits %q", test.pattern, path)
			}
		}
		if test.variable != "" {
			if got, ok := p.Value(Clean(test.fit[0]), test.variable); !ok || got != test.value {
				t.Errorf("%s: %s in %q is %q, want %q", test.pattern, test.variable, test.fit[0], got, test.value)
			}
		}
	}
}

func TestPatternMistakes(t *testing.T) {
	for _, text := range []string{"", "login", "*.css", "/a//b", "/a/../b", "/**/x/**", "/x*y*z", "/{id", "/{a b}",
		"/x{id}", "/{id}/{id}", "/a**", "/{}"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q was accepted", text)
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
		if got, want := p.Fits(clean, false), slowFits(pattern, clean); got != want {
			t.Fatalf("%q fits %q: %v, want %v", pattern, clean, got, want)
		}
	})
}
