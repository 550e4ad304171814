package config

import (
	_ "embed" // for the schema
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/stint-limiter/stint/internal/reload"
)

// maxSize is the maximum total size of the files of a configuration, in bytes.
const maxSize = 1 << 20

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of a configuration file, for editors. A file that it accepts may
// still have mistakes that a schema cannot find, such as undefined names or limits out of bounds.
func Schema() []byte { return slices.Clone(schema) }

// Parse reads a configuration from text. The given name is the file name in the reported mistakes.
// A non-nil error is an [*Error].
func Parse(name string, text []byte) (*Config, error) {
	return read([]reload.File{{Name: name, Text: text}})
}

// Load reads a configuration from a file or a directory. In a directory, it reads all files whose
// names end in .yaml or .yml, sorted by name. Together they form one configuration: the lists of
// tiers, policies and webhooks are concatenated, mappings from names are merged, and any other key
// may appear in only one file. Subdirectories, hidden files and files that editors leave behind are
// skipped.
//
// A non-nil error is an [*Error] or a file system error.
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
		r.files = append(r.files, source{f.Name, len(doc.Tiers), len(doc.Policies), len(doc.Webhooks)})
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
