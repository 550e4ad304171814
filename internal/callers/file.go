package callers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// EnsureToken makes a file with a new token, which only its owner can read, unless there is one already: processes that start
// together agree on the token of the first. It holds the token and nothing else, so that other programs can use the file.
//
// Others must not be able to read a file that is there. If they can, they no longer can afterwards, and repaired says so.
func EnsureToken(path string) (repaired bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeToken(path); err != nil {
			return false, err
		}
		info, err = os.Lstat(path)
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() { // a link could lead to the file of somebody else, which is not to be changed
		return false, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	if runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return false, nil
	}
	return true, file.Chmod(0o600)
}

// makeToken writes a new token, all of it at once, unless somebody else has.
func makeToken(path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // only for its owner
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // it has the other name, or is of no use
	_, err = fmt.Fprintln(file, rand.Text())
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	err = os.Link(file.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		// There are file systems without links. If another process does the same now, the last one wins, and the others
		// notice that the file changes.
		err = os.Rename(file.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// ReadableByAll reports whether everybody on this machine can read a file. Where it cannot be told, it is not.
func ReadableByAll(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
}
