package reload

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// File is a file and its content.
type File struct {
	Name string
	Text []byte
}

// FileError reports a file or directory that exists but is not usable.
type FileError struct{ Name, Message string }

func (e *FileError) Error() string { return e.Name + ": " + e.Message }

// Open reads a file or, if the path leads to a directory, the files in it whose names satisfy
// `wanted`. It limits their total size in the same way as [ReadFiles]. If deep is true, it includes
// subdirectories. Files are in the order of their paths. Open skips hidden files and directories,
// and files that editors leave behind, such as #a.yaml#. The error is a [*FileError] or comes from
// the system.
func Open(path string, size int, deep bool, wanted func(name string) bool) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	names := []string{path}
	if info.IsDir() {
		names, err = list(path, deep, wanted)
		switch {
		case err != nil:
			return nil, err
		case len(names) == 0:
			return nil, &FileError{path, "no rules: the directory has no *.yaml or *.yml file"}
		}
	}
	return ReadFiles(size, names...)
}

// list returns the paths of the files in a directory whose names satisfy `wanted`. Links to files
// count as files: in a Kubernetes ConfigMap, files are symbolic links.
func list(directory string, deep bool, wanted func(name string) bool) (names []string, err error) {
	entries, err := os.ReadDir(directory)
	for _, entry := range entries {
		name := filepath.Join(directory, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), ".") || entry.IsDir() && !deep:
			continue
		case entry.IsDir():
			below, err := list(name, deep, wanted)
			if err != nil {
				return nil, err
			}
			names = append(names, below...)
			continue
		case strings.HasPrefix(entry.Name(), "#") || !wanted(entry.Name()):
			continue
		}
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir(): // the entry is a link to a directory
		case !info.Mode().IsRegular():
			return nil, &FileError{name, "not a regular file"}
		default:
			names = append(names, name)
		}
	}
	return names, err
}

// ReadFiles reads files in order until they exceed size bytes in total. It then truncates the last
// file, so that the total is size+1 bytes.
func ReadFiles(size int, names ...string) ([]File, error) {
	var files []File
	left := size
	for _, name := range names {
		text, err := readUpTo(name, left+1)
		if err != nil {
			return nil, err
		}
		files = append(files, File{name, text})
		if left -= len(text); left < 0 {
			break
		}
	}
	return files, nil
}

func readUpTo(name string, n int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(n)))
}
