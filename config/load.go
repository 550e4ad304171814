package config

import (
	_ "embed" // for the schema
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/stint-limiter/stint/internal/reload"
)

// maxSize is the largest configuration, all of its files together.
const maxSize = 1 << 20

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of a configuration file, for editors. What it accepts can still be
// wrong in ways that no schema knows: names that nothing has, limits out of bounds.
func Schema() []byte { return slices.Clone(schema) }

// Parse reads a configuration from text. The name is for mistakes. An error is a [*Error].
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
	mistakes, wrong := r.all()
	if wrong {
		return nil, &Error{mistakes}
	}
	config.Warnings = mistakes
	return config, nil
}

// open reads the files of a configuration, as far as they are not larger than one may be.
func open(path string) ([]reload.File, error) {
	files, err := reload.Open(path, maxSize, false, func(name string) bool {
		extension := filepath.Ext(name)
		return extension == ".yaml" || extension == ".yml"
	})
	if wrong, ok := errors.AsType[*reload.FileError](err); ok {
		return nil, mistakeIn(wrong.Name, wrong.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return files, nil
}

func mistakeIn(name, message string) error {
	return &Error{Mistakes: []Mistake{{File: name, Line: 1, Message: message}}}
}
