package envoyrls

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/reload"
)

// maxSize is the maximum total size in bytes of the files of a configuration.
const maxSize = 16 << 20

// Load reads a configuration of Envoy's rate limit service from a file, or from all files in a
// directory and its subdirectories, in the order of their paths. Each file configures one domain.
// With mergeDomains, several files may configure the same domain. See [Read].
//
// In a directory, Load reads files whose names end in .yaml or .yml or have no extension. It skips
// hidden files and directories, files that editors leave behind, and files whose names consist of
// digits. A directory without files is an error, so that rules are not lost by accident.
//
// The error is a [*config.Error] with every mistake in every file, or an error of the file system.
func Load(path string, mergeDomains bool) (*Config, error) {
	files, err := Open(path)
	if err != nil {
		return nil, err
	}
	return Read(files, mergeDomains)
}

// Open reads the files that [Load] reads, so that a caller can check whether they have changed. If
// a configuration is too large, Open returns just enough of it for [Read] to refuse it.
func Open(path string) ([]reload.File, error) {
	files, err := reload.Open(path, maxSize, true, configName)
	if wrong, ok := errors.AsType[*reload.FileError](err); ok {
		return nil, wrongFile(wrong.Name, "%s", wrong.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("envoyrls: %w", err)
	}
	return files, nil
}

// Read parses files as a configuration, in the given order. With mergeDomains, several files may
// configure the same domain, as with MERGE_DOMAIN_CONFIG in envoyproxy/ratelimit: their descriptors
// form one list, in the order of the files, which must not contain duplicates. Without
// mergeDomains, a second file for a domain is a mistake.
//
// The error is a [*config.Error].
func Read(files []reload.File, mergeDomains bool) (*Config, error) {
	r := newReader(mergeDomains)
	left := maxSize
	for _, f := range files {
		if left -= len(f.Text); left < 0 {
			return nil, wrongFile(f.Name, "oversized: the configuration is larger than %d bytes", maxSize)
		}
		before := len(r.mistakes)
		r.read(f.Name, f.Text)
		slices.SortStableFunc(r.mistakes[before:], func(a, b config.Mistake) int { return cmp.Compare(a.Line, b.Line) })
	}
	if len(r.mistakes) > 0 {
		return nil, &config.Error{Mistakes: r.mistakes}
	}
	return &r.config, nil
}

// Parse parses the text of a single file as a configuration. name is the name of the file in
// messages. The error is a [*config.Error].
func Parse(name string, text []byte) (*Config, error) {
	return Read([]reload.File{{Name: name, Text: text}}, false)
}

// configName reports whether a file with this name belongs to a configuration. Files that editors
// leave behind, such as a.yaml~ and 4913, do not.
func configName(name string) bool {
	if strings.HasSuffix(name, "~") || strings.Trim(name, "0123456789") == "" {
		return false
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", "":
		return true
	}
	return false
}

func wrongFile(name, format string, args ...any) error {
	return &config.Error{Mistakes: []config.Mistake{{File: name, Line: 1, Message: fmt.Sprintf(format, args...)}}}
}
