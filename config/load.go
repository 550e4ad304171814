package config

import (
	_ "embed" // for the schema
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/internal/reload"
)

// maxSize is the largest configuration, all of its files together.
const maxSize = 1 << 20

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of a configuration file, for editors. What it accepts can still be
// wrong in ways that no schema knows: names that nothing has, limits out of bounds.
func Schema() []byte { return slices.Clone(schema) }

// Parse reads a configuration from text. The name is that of the file in mistakes. An error is a
// [*Error].
func Parse(name string, text []byte) (*Config, error) {
	return read([]reload.File{{Name: name, Text: text}})
}

// Load reads a configuration from a file, or from all files in a directory that are called *.yaml
// or *.yml, in the order of their names. Those together are one configuration: tiers and policies
// follow each other, names are united, and everything else may be in one file only. Directories in
// it, hidden files and what editors leave behind are not read.
//
// An error is a [*Error], or that of the file system.
func Load(path string) (*Config, error) {
	files, err := open(path)
	if err != nil {
		return nil, err
	}
	return read(files)
}

// read makes a configuration of files that are one configuration.
func read(files []reload.File) (*Config, error) {
	r, doc := newReader(), &document{}
	size := 0
	for i, f := range files {
		r.files = append(r.files, source{f.Name, len(doc.Tiers), len(doc.Policies)})
		d := decoder{reader: r, file: i}
		if size += len(f.Text); size > maxSize {
			d.blind = true
			d.note(position{file: i}, "", "oversized: the configuration is larger than %d bytes", maxSize)
			break
		}
		d.decode(f.Text, doc)
	}
	var config *Config
	if !r.blind {
		config = compile(doc, r)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return config, nil
}

// open reads the files of a configuration, as far as they are not larger than one may be.
func open(path string) ([]reload.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	names := []string{path}
	if info.IsDir() {
		if names, err = filesIn(path); err != nil {
			return nil, err
		}
	}
	files, err := reload.ReadFiles(maxSize, names...)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return files, nil
}

// filesIn returns the files of a directory that belong to a configuration. Those of a Kubernetes
// ConfigMap are symbolic links.
func filesIn(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	var names []string
	for _, entry := range entries {
		name := filepath.Join(directory, entry.Name())
		if !configName(entry.Name()) {
			continue
		}
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("config: %w", err)
		case info.IsDir():
		case !info.Mode().IsRegular():
			return nil, mistakeIn(name, "not a regular file")
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, mistakeIn(directory, "no rules: the directory has no *.yaml or *.yml file")
	}
	return names, nil
}

// configName reports whether a file of that name in a directory belongs to a configuration. Hidden
// files and what editors leave behind do not: .a.yaml.swp, a.yaml~, #a.yaml#.
func configName(name string) bool {
	extension := filepath.Ext(name)
	return (extension == ".yaml" || extension == ".yml") && !strings.HasPrefix(name, ".") &&
		!strings.HasPrefix(name, "#")
}

// mistakeIn is a mistake that concerns a file as a whole.
func mistakeIn(name, message string) error {
	return &Error{Mistakes: []Mistake{{File: name, Line: 1, Message: message}}}
}
