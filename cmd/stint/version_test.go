package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	clean := build()
	clean.Settings = clean.Settings[:3]
	tests := []struct {
		name  string
		build *debug.BuildInfo
		want  string
	}{
		{"modified", build(), "stint v1.2.3, revision 0123456789abcdef (modified), go1.26.1"},
		{"clean", clean, "stint v1.2.3, revision 0123456789abcdef, go1.26.1"},
		{"without a repository", &debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: "(devel)"}},
			"stint (devel), go1.26.1"},
		{"without a module", nil, "stint (unknown), " + runtime.Version()},
	}
	for _, test := range tests {
		if got := versionOf(test.build).String(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
