package callers

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
)

// EnsureToken creates a file with a new token, unless the file exists. Only the owner can read the
// file. Processes that start at the same time end up with the same token. The file contains only
// the token, so that other programs can use it.
//
// If other users can access an existing file, EnsureToken makes it private, and repaired is true.
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
	if !info.Mode().IsRegular() { // a link could lead to a file that must not be changed
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

// makeToken writes a new token atomically, unless another process has written one.
func makeToken(path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // readable by its owner only
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // the file was renamed, or is no longer needed
	_, err = fmt.Fprintln(file, rand.Text())
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	err = os.Link(file.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		// Some file systems do not support hard links. If several processes rename their files at
		// the same time, the last rename wins, and the other processes notice that the file has
		// changed.
		err = os.Rename(file.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

const maxSecret = 64 << 10

// ReadSecret returns the contents of a file that holds a secret, without surrounding white space.
func ReadSecret(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSecret {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxSecret)
	}
	return bytes.TrimSpace(text), nil
}

// WarnReadable logs a warning if every user of this machine can read a file of secrets. The
// argument `what` describes the secrets.
func WarnReadable(logger *slog.Logger, what, path string) {
	info, err := os.Stat(path)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0 {
		logger.Warn("a file of secrets is readable by all users of this machine; restrict it to its owner with chmod 600",
			"of", what, "file", path)
	}
}
