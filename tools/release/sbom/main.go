// Command sbom writes the components of a Go program, from its build information, as a CycloneDX
// document. The same program gives the same document.
//
//	sbom dist/stint_linux_amd64_v1/stint stint.cdx.json
package main

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom <program> <document>")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// write reads a program and writes its document.
func write(program, document string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	root := component(&info.Main)
	root.Type = cyclonedx.ComponentTypeApplication
	properties := []cyclonedx.Property{}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &root}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			bom.Metadata.Timestamp = s.Value
		}
		properties = append(properties, cyclonedx.Property{Name: "go:" + s.Key, Value: s.Value})
	}
	root.Properties = &properties
	std := component(&debug.Module{Path: "std", Version: info.GoVersion[len("go"):]})
	components, refs := []cyclonedx.Component{std}, []string{std.BOMRef}
	for _, module := range info.Deps {
		c := component(cmp.Or(module.Replace, module))
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}
	file, err := os.Create(document)
	if err != nil {
		return err
	}
	if err := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom,
		cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	return file.Close()
}

// component describes a module, with its checksum as in go.sum.
func component(module *debug.Module) cyclonedx.Component {
	url := "pkg:golang/" + module.Path + "@" + module.Version
	c := cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: module.Path,
		Version: module.Version, PackageURL: url}
	if module.Sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}}
	}
	return c
}
