package envoyrls

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-limiter/stint/config"
	"github.com/stint-limiter/stint/internal/reload"
)

// maxSize is the largest configuration, all of its files together.
const maxSize = 16 << 20

// Load reads the configuration of Envoy's rate limit service from a file, or from all files in a
// directory and in those below it, in the order of their paths. Each file is one domain, unless
// [MergeDomains] says otherwise.
//
// Files in a directory may be called anything that ends in .yaml or .yml or has no extension at
// all. Hidden files and directories, what editors leave behind and names made of digits alone are
// not read. A directory without a file is a mistake: rules do not vanish by accident.
//
// An error is a [*config.Error] with every mistake in every file, or that of the file system.
func Load(path string, options ...ReadOption) (*Config, error) {
	files, err := Open(path)
	if err != nil {
		return nil, err
	}
	return Read(files, options...)
}

// ReadOption changes how [Load] and [Read] understand files.
type ReadOption func(*reader)

// MergeDomains says whether several files may configure one domain, as with MERGE_DOMAIN_CONFIG in
// envoyproxy/ratelimit: their descriptors are those of one list, in the order of the files, in
// which no two may be the same. Without it the second file of a domain is a mistake.
func MergeDomains(on bool) ReadOption { return func(r *reader) { r.mergeDomains = on } }

// File is a file of a configuration as it was read.
type File = reload.File

// Open reads the files of a configuration, and exactly those that [Load] would make one of, for
// whoever wants to know whether they have changed. Of a configuration that is too large there is
// just enough for [Read] to refuse it.
func Open(path string) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("envoyrls: %w", err)
	}
	names := []string{path}
	if info.IsDir() {
		if names, err = filesBelow(path); err != nil {
			return nil, err
		}
	}
	files, err := reload.ReadFiles(maxSize, names...)
	if err != nil {
		return nil, fmt.Errorf("envoyrls: %w", err)
	}
	return files, nil
}

// Read makes a configuration of files, in their order. An error is a [*config.Error].
func Read(files []File, options ...ReadOption) (*Config, error) {
	r := newReader()
	for _, o := range options {
		o(r)
	}
	left := maxSize
	for _, f := range files {
		if left -= len(f.Text); left < 0 {
			return nil, wrongFile(f.Name, "oversized: the configuration is larger than %d bytes", maxSize)
		}
		r.read(f.Name, f.Text)
	}
	return r.finish()
}

// Parse reads a configuration of one file from text. The name is that of the file in mistakes. An
// error is a [*config.Error].
func Parse(name string, text []byte) (*Config, error) { return Read([]File{{Name: name, Text: text}}) }

// filesBelow returns the files of a directory that belong to a configuration. Those of a Kubernetes
// ConfigMap are symbolic links.
func filesBelow(directory string) ([]string, error) {
	var names []string
	directory, err := filepath.EvalSymlinks(directory) // a walk does not follow its root
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == directory:
			return nil
		case entry.IsDir():
			if hidden(entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		case !configName(entry.Name()):
			return nil
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case info.IsDir(): // behind a link
			return nil
		case !info.Mode().IsRegular():
			return wrongFile(path, "not a regular file")
		}
		names = append(names, path)
		return nil
	})
	if err != nil {
		if _, ok := err.(*config.Error); ok {
			return nil, err
		}
		return nil, fmt.Errorf("envoyrls: %w", err)
	}
	if len(names) == 0 {
		return nil, wrongFile(directory, "no rules: the directory has no *.yaml or *.yml file")
	}
	return names, nil
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// configName reports whether a file of that name belongs to a configuration. Editors leave
// .a.yaml.swp, a.yaml~, #a.yaml# and 4913.
func configName(name string) bool {
	if hidden(name) || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") ||
		strings.Trim(name, "0123456789") == "" {
		return false
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", "":
		return true
	}
	return false
}

// wrongFile is a mistake that concerns a file as a whole.
func wrongFile(name, format string, args ...any) error {
	return &config.Error{Mistakes: []config.Mistake{{File: name, Line: 1, Message: fmt.Sprintf(format, args...)}}}
}

// finish returns the configuration that was read, or all mistakes in it.
func (r *reader) finish() (*Config, error) {
	if len(r.mistakes) == 0 {
		return &r.config, nil
	}
	// Files were read in order; within one, what stands first comes first.
	for from := 0; from < len(r.mistakes); {
		to := from
		for to < len(r.mistakes) && r.mistakes[to].File == r.mistakes[from].File {
			to++
		}
		slices.SortStableFunc(r.mistakes[from:to], func(a, b config.Mistake) int { return cmp.Compare(a.Line, b.Line) })
		from = to
	}
	return nil, &config.Error{Mistakes: r.mistakes}
}
