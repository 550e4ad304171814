package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (*versionCommand) Help() string {
	return `Prints the version of the module, and the revision of the repository that it was built from; "modified" means
uncommitted changes.

    stint version --json`
}

// release is the version of a build outside a repository, such as one from a source archive:
//
//	go build -ldflags="-X main.release=v0.1.0" ./cmd/stint
var release string

// version describes what the program was built from.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // time of the revision
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
}

func (c *versionCommand) Run(s *system) error {
	v := versionOf(s.Build)
	return s.show(c.JSON, v, func() []byte { return []byte(v.String() + "\n") })
}

// versionOf returns the version from build information, which may be nil.
func versionOf(build *debug.BuildInfo) version {
	if build == nil {
		build = &debug.BuildInfo{}
	}
	v := version{
		Version: cmp.Or(release, build.Main.Version, "(unknown)"),
		Go:      cmp.Or(build.GoVersion, runtime.Version()),
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Revision = setting.Value
		case "vcs.time":
			v.Time = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		}
	}
	return v
}

func (v version) String() string {
	text := "stint " + v.Version
	if v.Revision != "" {
		text += ", revision " + v.Revision
	}
	if v.Modified {
		text += " (modified)"
	}
	return fmt.Sprintf("%s, %s", text, v.Go)
}
