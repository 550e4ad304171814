package reload

import (
	"io"
	"os"
)

// File is a file as it was read.
type File struct {
	Name string
	Text []byte
}

// ReadFiles reads files, in their order, until they are more than size bytes together: the last one
// is then cut short, and there is one byte more in all than there may be.
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

// readUpTo reads a file, but not more than n bytes of it.
func readUpTo(name string, n int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(n)))
}
