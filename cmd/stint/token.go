package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-limiter/stint/internal/callers"
)

const (
	// tokenName is the name of the file in the state directory that contains the token that a
	// daemon created. serviceToken is the path of that file for a daemon that the systemd unit
	// starts.
	tokenName    = "admin-token"
	serviceToken = "/var/lib/stint/" + tokenName

	// stateEnv is set by systemd and may hold several directories, separated by colons.
	stateEnv = "STATE_DIRECTORY"
	xdgEnv   = "XDG_STATE_HOME"
)

// stateDir returns the directory for data that must survive a restart.
func stateDir() (string, error) {
	if first, _, _ := strings.Cut(os.Getenv(stateEnv), ":"); first != "" {
		return first, nil
	}
	if base := os.Getenv(xdgEnv); filepath.IsAbs(base) {
		return filepath.Join(base, "stint"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "stint"), nil
}

// ensureToken returns the path of the file with the admin listener's token. It creates the file if
// it is missing.
func ensureToken(directory string, logger *slog.Logger) (path string, err error) {
	const want = "cannot store the token for --admin: %w; " +
		"want a writable directory in --state-dir, a file of tokens in --admin-token-file, or --no-admin-token"
	if directory == "" {
		if directory, err = stateDir(); err != nil {
			return "", fmt.Errorf(want, err)
		}
	}
	path = filepath.Join(directory, tokenName)
	repaired, err := callers.EnsureToken(path)
	if err != nil {
		return "", fmt.Errorf(want, err)
	}
	if repaired {
		logger.Warn("stint: the token for --admin was readable by other users of this machine and is now private; to replace it, remove the file and restart",
			"file", path)
	}
	logger.Info("stint: the token for --admin is in a file", "file", path)
	return path, nil
}

// localToken returns the token that a daemon on this machine created, and the path of its file.
func localToken() (token, path string, err error) {
	paths := []string{serviceToken}
	if directory, err := stateDir(); err == nil {
		paths = []string{filepath.Join(directory, tokenName), serviceToken}
	}
	missing := fmt.Errorf("none was found in %s", strings.Join(paths, " or "))
	for _, path := range paths {
		token, err := firstToken(path)
		if err == nil {
			return token, path, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			missing = fmt.Errorf("this user cannot read %s; run the command as root or as the server's user", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			missing = err
		}
	}
	return "", "", missing
}

// onThisMachine reports whether the host of a URL always means this machine: localhost or a
// loopback address.
func onThisMachine(where string) bool {
	u, err := url.Parse(where)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && a.Unmap().IsLoopback()
}

// firstToken returns the first token in a file in the format of --admin-token-file.
func firstToken(path string) (string, error) {
	text, err := callers.ReadSecret(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			if _, token, ok := strings.Cut(line, ": "); ok {
				return strings.TrimSpace(token), nil
			}
			return line, nil
		}
	}
	return "", fmt.Errorf("no token in %s", path)
}
